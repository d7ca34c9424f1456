"""How a push looks, in the blocks that FCM has for each platform."""

from typing import Any

from tocsin.domain.delivery.message import PushAppearance

_HTTPS = "https://"
_ANDROID_PRIORITY = {"warning": "PRIORITY_HIGH", "critical": "PRIORITY_MAX"}
_SHOWN = ("image", "icon", "sound", "click_action", "channel")


def add_appearance(content: dict[str, Any], appearance: PushAppearance) -> None:
    """Add to a message what its appearance asks for.

    FCM cannot send Apple's VoIP pushes: such a push is an alert here.
    """
    links = _given(deep_link=appearance.deep_link, route=appearance.route)
    if links:
        content["data"] = {**content["data"], **links}
    if appearance.analytics_label:
        content["fcm_options"] = {"analytics_label": appearance.analytics_label}
    if appearance.push_type == "background":
        _silence(content)
        return
    _add_android(content["android"]["notification"], appearance)
    _add_apple(content["apns"], appearance)
    if web := _web(appearance):
        content["webpush"] = web


def appearance_size(appearance: PushAppearance) -> int:
    """Count the bytes an appearance adds to what is shown; its links are counted with the data."""
    return sum(len(value.encode()) for field in _SHOWN if (value := getattr(appearance, field)))


def _silence(content: dict[str, Any]) -> None:
    """Leave the data alone, which the app gets without anything being shown."""
    del content["notification"], content["android"]["notification"]
    content["android"]["priority"] = "NORMAL"
    # Apple refuses a background push of high priority.
    content["apns"]["headers"] |= {"apns-push-type": "background", "apns-priority": "5"}
    content["apns"]["payload"] = {"aps": {"content-available": 1}}


def _add_android(notification: dict[str, Any], appearance: PushAppearance) -> None:
    notification |= _given(
        image=appearance.image,
        # To Android an icon is a drawable of the app, to a browser an address.
        icon=None if _is_address(appearance.icon) else appearance.icon,
        sound=appearance.sound,
        click_action=appearance.click_action,
        channel_id=appearance.channel,
        notification_count=appearance.badge,
        notification_priority=_ANDROID_PRIORITY.get(appearance.severity),
    )


def _add_apple(apns: dict[str, Any], appearance: PushAppearance) -> None:
    apns["headers"] |= {"apns-push-type": "alert", "apns-priority": "10"}
    aps = _given(sound=appearance.sound, badge=appearance.badge, category=appearance.click_action)
    if appearance.image:
        # Lets the app's service extension fetch the image before the alert is shown.
        aps["mutable-content"] = 1
        apns["fcm_options"] = {"image": appearance.image}
    if appearance.severity == "critical":
        # Apple's own level `critical` needs its consent for each app.
        aps["interruption-level"] = "time-sensitive"
    if aps:
        apns["payload"] = {"aps": aps}


def _web(appearance: PushAppearance) -> dict[str, Any]:
    web: dict[str, Any] = {}
    if appearance.severity != "info":
        web["headers"] = {"Urgency": "high"}
    shown = _given(icon=appearance.icon if _is_address(appearance.icon) else None, image=appearance.image)
    if shown:
        web["notification"] = shown
    # A browser opens nothing else.
    if _is_address(appearance.deep_link):
        web["fcm_options"] = {"link": appearance.deep_link}
    return web


def _is_address(value: str | None) -> bool:
    return value is not None and value.startswith(_HTTPS)


def _given(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}
