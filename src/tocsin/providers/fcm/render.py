"""A message as FCM wants it, with its appearance in the blocks that FCM has for each platform."""

from datetime import datetime
from typing import Any

import msgspec

from tocsin.domain.delivery.message import DEFAULT_APPEARANCE, Message, PushAppearance
from tocsin.domain.delivery.outcome import Rejected
from tocsin.providers.rendering import (
    apple_alert,
    given,
    links,
    remember_last,
    seconds_until,
    web_address,
)

PAYLOAD_BYTES = 4_096
TOPIC_BYTES = 2_048
LONGEST_TTL = 2_419_200
TOPIC_KINDS = frozenset({"topic", "condition"})

_ANDROID_PRIORITY = {"warning": "PRIORITY_HIGH", "critical": "PRIORITY_MAX"}
_SHOWN = ("image", "icon", "sound", "click_action", "channel")
_encoder = msgspec.json.Encoder()


def render(message: Message, now: datetime) -> bytes | Rejected:
    """Render a message as the body of a request to FCM."""
    kind = message.target_kind
    content = _content(message, now)
    content[kind] = message.target
    body = _encoder.encode({"message": content})
    return _within(body, content, message, TOPIC_BYTES if kind in TOPIC_KINDS else PAYLOAD_BYTES)


def render_within_sns(message: Message, now: datetime) -> bytes | Rejected:
    """Render a message as SNS passes it on to FCM; the endpoint has the token."""
    content = _content(message, now)
    return _within(_encoder.encode({"fcmV1Message": {"message": content}}), content, message, PAYLOAD_BYTES)


def _content(message: Message, now: datetime) -> dict[str, Any]:
    """Build a message without its target.

    A tag, unlike a collapse key, has no limit of four a device: a repeat replaces what
    the phone shows, and nothing that waits for an offline phone is lost.
    """
    tag = message.collapse_key or str(message.delivery_id)
    android: dict[str, Any] = {"priority": "HIGH", "notification": {"tag": tag}}
    apns_headers = {"apns-collapse-id": tag}
    if message.collapse_key:
        android["collapse_key"] = message.collapse_key
    if message.expires_at:
        android["ttl"], apns_headers["apns-expiration"] = _lifetime(message.expires_at, now)
    content: dict[str, Any] = {
        "notification": {"title": message.title, "body": message.body},
        "data": message.data,
        "android": android,
        "apns": {"headers": apns_headers},
    }
    if message.appearance is not DEFAULT_APPEARANCE:
        _add_appearance(content, message.appearance)
    return content


@remember_last
def _lifetime(expires_at: datetime, now: datetime) -> tuple[str, str]:
    """Write the time to live for Android, and the time of expiration for Apple."""
    return f"{seconds_until(expires_at, now, LONGEST_TTL)}s", str(int(expires_at.timestamp()))


def _within(body: bytes, content: dict[str, Any], message: Message, most: int) -> bytes | Rejected:
    """Return the body unless its payload is larger than FCM takes."""
    # The payload is a part of the body, so a small body needs no measuring.
    if len(body) > most and (size := _payload_size(content, message.appearance)) > most:
        return Rejected("payload_too_large", f"{size} bytes; FCM takes {most} for a {message.target_kind}")
    return body


def _payload_size(content: dict[str, Any], appearance: PushAppearance) -> int:
    """Count the bytes that FCM limits; links of the appearance are counted with the data."""
    data = content["data"]
    shown = [value for field in _SHOWN if (value := getattr(appearance, field))]
    texts = [*content.get("notification", {}).values(), *data.keys(), *data.values(), *shown]
    return sum(len(text.encode()) for text in texts)


def _add_appearance(content: dict[str, Any], appearance: PushAppearance) -> None:
    """Add to a message what its appearance asks for.

    FCM cannot send Apple's VoIP pushes: such a push is an alert here.
    """
    content["data"] = {**content["data"], **links(appearance)}
    if appearance.analytics_label:
        content["fcm_options"] = {"analytics_label": appearance.analytics_label}
    if appearance.push_type == "background":
        _silence(content)
        return
    _add_android(content["android"]["notification"], appearance)
    _add_apple(content["apns"], appearance)
    if web := _web(appearance):
        content["webpush"] = web


def _silence(content: dict[str, Any]) -> None:
    """Leave the data alone, which the app gets without anything being shown."""
    del content["notification"], content["android"]["notification"]
    content["android"]["priority"] = "NORMAL"
    # Apple refuses a background push of high priority.
    content["apns"]["headers"] |= {"apns-push-type": "background", "apns-priority": "5"}
    content["apns"]["payload"] = {"aps": {"content-available": 1}}


def _add_android(notification: dict[str, Any], appearance: PushAppearance) -> None:
    notification |= given(
        image=appearance.image,
        # To Android an icon is a drawable of the app, to a browser an address.
        icon=None if web_address(appearance.icon) else appearance.icon,
        sound=appearance.sound,
        click_action=appearance.click_action,
        channel_id=appearance.channel,
        notification_count=appearance.badge,
        notification_priority=_ANDROID_PRIORITY.get(appearance.severity),
    )


def _add_apple(apns: dict[str, Any], appearance: PushAppearance) -> None:
    apns["headers"] |= {"apns-push-type": "alert", "apns-priority": "10"}
    if appearance.image:
        apns["fcm_options"] = {"image": appearance.image}
    if aps := apple_alert(appearance):
        apns["payload"] = {"aps": aps}


def _web(appearance: PushAppearance) -> dict[str, Any]:
    web: dict[str, Any] = {}
    if appearance.severity != "info":
        web["headers"] = {"Urgency": "high"}
    if shown := given(icon=web_address(appearance.icon), image=appearance.image):
        web["notification"] = shown
    # A browser opens nothing else.
    if link := web_address(appearance.deep_link):
        web["fcm_options"] = {"link": link}
    return web
