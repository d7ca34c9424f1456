"""A message as Expo wants it."""

import hashlib
from datetime import datetime
from typing import Any

import msgspec

from tocsin.domain.delivery.message import Message
from tocsin.domain.delivery.outcome import Rejected

PAYLOAD_BYTES = 4_096
LONGEST_TTL = 2_419_200
LONGEST_COLLAPSE_ID = 64

_encode = msgspec.json.Encoder().encode


def render(message: Message, now: datetime) -> bytes | Rejected:
    """Write one element of a request.

    Android replaces what it shows by `tag`, Apple by `collapseId`: a message sent twice shows once.
    """
    appearance = message.appearance
    tag = message.collapse_key or str(message.delivery_id)
    push: dict[str, Any] = {
        "to": message.target,
        "data": _data(message),
        "tag": tag,
        "collapseId": _collapse_id(tag),
    }
    if appearance.push_type == "background":
        # Apple takes a push without a face at normal priority only.
        push |= {"_contentAvailable": True, "priority": "normal"}
    else:
        push |= {"title": message.title, "body": message.body, "priority": "high"}
        if appearance.severity == "critical":
            push["interruptionLevel"] = "time-sensitive"
        if appearance.image is not None:
            # The app's own extension has to fetch the image on iOS, which it may for mutable content alone.
            push |= {"richContent": {"image": appearance.image}, "mutableContent": True}
        push |= _given(
            sound=appearance.sound,
            channelId=appearance.channel,
            categoryId=appearance.click_action,
            icon=appearance.icon,
        )
    if appearance.badge is not None:
        push["badge"] = appearance.badge
    if message.expires_at is not None:
        seconds = int((message.expires_at - now).total_seconds())
        push["ttl"] = min(max(seconds, 0), LONGEST_TTL)
    written = _encode(push)
    if len(written) > PAYLOAD_BYTES and (size := _payload_size(push)) > PAYLOAD_BYTES:
        return Rejected("payload_too_large", f"{size} bytes; Expo takes {PAYLOAD_BYTES}")
    return written


def _data(message: Message) -> dict[str, str]:
    """Add the place to open: `url`, which Expo Router follows, and the app's own `route`."""
    appearance = message.appearance
    data = dict(message.data)
    if appearance.route is not None:
        data["route"] = appearance.route
    if (url := appearance.deep_link or appearance.route) is not None:
        data["url"] = url
    return data


def _collapse_id(tag: str) -> str:
    """Digest what Apple would not take in a header, the same way every time."""
    if len(tag) <= LONGEST_COLLAPSE_ID and tag.isascii() and tag.isprintable():
        return tag
    return hashlib.sha256(tag.encode()).hexdigest()


def _given(**fields: str | None) -> dict[str, str]:
    return {name: value for name, value in fields.items() if value is not None}


def _payload_size(push: dict[str, Any]) -> int:
    return (
        len(_encode(push["data"])) + len(push.get("title", "").encode()) + len(push.get("body", "").encode())
    )
