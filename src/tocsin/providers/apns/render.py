"""A message as APNs wants it: the payload and the headers."""

import re
from typing import Any

from tocsin.domain.delivery.message import DEFAULT_APPEARANCE, Message
from tocsin.domain.delivery.outcome import Rejected
from tocsin.http2.fields import field
from tocsin.http2.hpack_blocks import encode_name, encode_string
from tocsin.providers.rendering import apple_alert, collapse_id, encode_within, given, links

PAYLOAD_BYTES = 4_096
VOIP_BYTES = 5_120

# It becomes a part of a path. Apple promises no length, and documents no alphabet beyond hexadecimal. A URL
# that is too long cannot be requested.
_TOKEN = re.compile(r"[A-Za-z0-9_-]{1,4096}")
_ID, _COLLAPSE_ID, _EXPIRATION = (
    encode_name(name, sensitive=False) for name in (b"apns-id", b"apns-collapse-id", b"apns-expiration")
)


def token_fault(token: str) -> str | None:
    """Return what is wrong with a device token; another character could lead the request elsewhere."""
    return None if _TOKEN.fullmatch(token) else "must be a device token of Apple's in hexadecimal"


def render(message: Message) -> bytes | Rejected:
    """Render the payload; what the app reads stands beside Apple's own block `aps`.

    Apple lets a background push show and sound nothing.
    """
    appearance = message.appearance
    alert = {"title": message.title, "body": message.body}
    if appearance is DEFAULT_APPEARANCE:
        return encode_within({**message.data, "aps": {"alert": alert}}, PAYLOAD_BYTES, "APNs")
    payload: dict[str, Any] = {**message.data, **links(appearance)}
    if appearance.push_type == "background":
        payload["aps"] = {"content-available": 1}
    else:
        payload |= given(image=appearance.image)
        payload["aps"] = {"alert": alert, **apple_alert(appearance)}
    most = VOIP_BYTES if appearance.push_type == "voip" else PAYLOAD_BYTES
    return encode_within(payload, most, "APNs")


def type_headers(push_type: str, topic: str) -> dict[str, str]:
    """Return the headers that all pushes of a type have, but for their authorization."""
    return {
        "apns-topic": f"{topic}.voip" if push_type == "voip" else topic,
        "apns-push-type": push_type,
        "apns-priority": "5" if push_type == "background" else "10",
    }


def message_fields(message: Message) -> bytes:
    """Encode the header fields that each push has for itself."""
    delivery_id = encode_string(str(message.delivery_id).encode())
    fields = _ID + delivery_id
    if message.collapse_key:
        fields += field("apns-collapse-id", collapse_id(message.collapse_key))
    else:
        fields += _COLLAPSE_ID + delivery_id
    if message.expires_at is not None:
        fields += _EXPIRATION + encode_string(b"%d" % message.expires_at.timestamp())
    return fields
