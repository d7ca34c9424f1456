"""How a push looks, in the blocks that FCM has for each platform."""

from typing import Any

from tocsin.domain.delivery.message import Look

_HTTPS = "https://"
_ANDROID_PRIORITY = {"warning": "PRIORITY_HIGH", "critical": "PRIORITY_MAX"}
_SHOWN = ("image", "icon", "sound", "click_action", "channel")


def dress(content: dict[str, Any], look: Look) -> None:
    """Add to a message what its look asks for.

    FCM cannot send Apple's VoIP pushes: such a push is an alert here.
    """
    links = _given(deep_link=look.deep_link, route=look.route)
    if links:
        content["data"] = {**content["data"], **links}
    if look.analytics_label:
        content["fcm_options"] = {"analytics_label": look.analytics_label}
    if look.push_type == "background":
        _silence(content)
        return
    _dress_android(content["android"]["notification"], look)
    _dress_apple(content["apns"], look)
    if web := _web(look):
        content["webpush"] = web


def look_size(look: Look) -> int:
    """Count the bytes a look adds to what is shown; its links are counted with the data."""
    return sum(len(value.encode()) for field in _SHOWN if (value := getattr(look, field)))


def _silence(content: dict[str, Any]) -> None:
    """Leave the data alone, which the app gets without anything being shown."""
    del content["notification"], content["android"]["notification"]
    content["android"]["priority"] = "NORMAL"
    # Apple refuses a background push of high priority.
    content["apns"]["headers"] |= {"apns-push-type": "background", "apns-priority": "5"}
    content["apns"]["payload"] = {"aps": {"content-available": 1}}


def _dress_android(notification: dict[str, Any], look: Look) -> None:
    notification |= _given(
        image=look.image,
        # To Android an icon is a drawable of the app, to a browser an address.
        icon=None if _is_address(look.icon) else look.icon,
        sound=look.sound,
        click_action=look.click_action,
        channel_id=look.channel,
        notification_count=look.badge,
        notification_priority=_ANDROID_PRIORITY.get(look.severity),
    )


def _dress_apple(apns: dict[str, Any], look: Look) -> None:
    apns["headers"] |= {"apns-push-type": "alert", "apns-priority": "10"}
    aps = _given(sound=look.sound, badge=look.badge, category=look.click_action)
    if look.image:
        # Lets the app's service extension fetch the image before the alert is shown.
        aps["mutable-content"] = 1
        apns["fcm_options"] = {"image": look.image}
    if look.severity == "critical":
        # Apple's own level `critical` needs its consent for each app.
        aps["interruption-level"] = "time-sensitive"
    if aps:
        apns["payload"] = {"aps": aps}


def _web(look: Look) -> dict[str, Any]:
    web: dict[str, Any] = {}
    if look.severity != "info":
        web["headers"] = {"Urgency": "high"}
    shown = _given(icon=look.icon if _is_address(look.icon) else None, image=look.image)
    if shown:
        web["notification"] = shown
    # A browser opens nothing else.
    if _is_address(look.deep_link):
        web["fcm_options"] = {"link": look.deep_link}
    return web


def _is_address(value: str | None) -> bool:
    return value is not None and value.startswith(_HTTPS)


def _given(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}
