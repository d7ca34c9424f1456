"""A message as APNs wants it: the payload and the headers."""

import re
from typing import Any

import msgspec

from tocsin.domain.delivery.message import DEFAULT_APPEARANCE, Message, PushAppearance
from tocsin.domain.delivery.outcome import Rejected
from tocsin.providers.rendering import collapse_id, given

PAYLOAD_BYTES = 4_096
VOIP_BYTES = 5_120

# It becomes a part of a path. Apple promises no length, and documents no alphabet beyond hexadecimal.
_TOKEN = re.compile(r"[A-Za-z0-9_-]+")
_encoder = msgspec.json.Encoder()


def token_fault(token: str) -> str | None:
    """Return what is wrong with a device token; another character could lead the request elsewhere."""
    return None if _TOKEN.fullmatch(token) else "must be a device token of Apple's in hexadecimal"


def render(message: Message) -> bytes | Rejected:
    """Render the payload; what the app reads stands beside Apple's own block `aps`."""
    appearance = message.appearance
    if appearance.push_type == "background":
        aps: dict[str, Any] = {"content-available": 1}
    else:
        aps = {"alert": {"title": message.title, "body": message.body}}
    payload: dict[str, Any] = {**message.data, "aps": aps}
    if appearance is not DEFAULT_APPEARANCE:
        _add_appearance(payload, aps, appearance)
    body = _encoder.encode(payload)
    most = VOIP_BYTES if appearance.push_type == "voip" else PAYLOAD_BYTES
    if len(body) > most:
        return Rejected("payload_too_large", f"{len(body)} bytes; APNs takes {most}")
    return body


def headers(message: Message, topic: str) -> dict[str, str]:
    """Render the headers of a request, but for its authorization."""
    push_type, delivery_id = message.appearance.push_type, str(message.delivery_id)
    rendered = {
        "apns-topic": f"{topic}.voip" if push_type == "voip" else topic,
        "apns-push-type": push_type,
        "apns-priority": "5" if push_type == "background" else "10",
        "apns-id": delivery_id,
        "apns-collapse-id": collapse_id(message.collapse_key or delivery_id),
    }
    if message.expires_at is not None:
        rendered["apns-expiration"] = str(int(message.expires_at.timestamp()))
    return rendered


def _add_appearance(payload: dict[str, Any], aps: dict[str, Any], appearance: PushAppearance) -> None:
    """Add the appearance; Apple lets a background push show and sound nothing."""
    payload |= given(deep_link=appearance.deep_link, route=appearance.route)
    if appearance.push_type == "background":
        return
    if appearance.image is not None:
        payload["image"] = appearance.image
        # Lets the app's service extension fetch the image before the alert is shown.
        aps["mutable-content"] = 1
    aps |= given(sound=appearance.sound, badge=appearance.badge, category=appearance.click_action)
    if appearance.severity == "critical":
        # Apple's own level `critical` needs its consent for each app.
        aps["interruption-level"] = "time-sensitive"
