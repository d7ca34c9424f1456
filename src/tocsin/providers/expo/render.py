"""A message as Expo wants it."""

import re
from datetime import datetime
from typing import Any

import msgspec

from tocsin.domain.delivery.message import Message
from tocsin.domain.delivery.outcome import Rejected
from tocsin.providers.rendering import collapse_id, given, seconds_left

PAYLOAD_BYTES = 4_096
LONGEST_TTL = 2_419_200

_TOKEN = re.compile(r"Expo(?:nent)?PushToken\[[^\[\]\s]+\]")
_encode = msgspec.json.Encoder().encode


def token_fault(token: str) -> str | None:
    """Return what is wrong with a token."""
    return None if _TOKEN.fullmatch(token) else "must be an Expo push token: ExponentPushToken[…]"


def render(message: Message, now: datetime) -> bytes | Rejected:
    """Render one element of a request.

    Android replaces what it shows by `tag`, Apple by `collapseId`: a message sent twice shows once.
    """
    appearance = message.appearance
    tag = message.collapse_key or str(message.delivery_id)
    # Expo Router follows `url`; `route` is the app's own.
    place = given(route=appearance.route, url=appearance.deep_link or appearance.route)
    push: dict[str, Any] = {
        "to": message.target,
        "data": {**message.data, **place},
        "tag": tag,
        "collapseId": collapse_id(tag),
    }
    if appearance.push_type == "background":
        # Apple takes a push that shows nothing at normal priority only.
        push |= {"_contentAvailable": True, "priority": "normal"}
    else:
        push |= {"title": message.title, "body": message.body, "priority": "high"}
        if appearance.severity == "critical":
            push["interruptionLevel"] = "time-sensitive"
        if appearance.image is not None:
            # The app's own extension has to fetch the image on iOS, which it may for mutable content alone.
            push |= {"richContent": {"image": appearance.image}, "mutableContent": True}
        push |= given(
            sound=appearance.sound,
            channelId=appearance.channel,
            categoryId=appearance.click_action,
            icon=appearance.icon,
        )
    push |= given(badge=appearance.badge, ttl=seconds_left(message, now, LONGEST_TTL))
    written = _encode(push)
    if len(written) > PAYLOAD_BYTES and (size := _payload_size(push)) > PAYLOAD_BYTES:
        return Rejected("payload_too_large", f"{size} bytes; Expo takes {PAYLOAD_BYTES}")
    return written


def _payload_size(push: dict[str, Any]) -> int:
    return (
        len(_encode(push["data"])) + len(push.get("title", "").encode()) + len(push.get("body", "").encode())
    )
