"""A message as a browser and its push service want it."""

import hashlib
import re
from base64 import urlsafe_b64encode
from datetime import datetime
from typing import Any

from tocsin.domain.delivery.message import Message
from tocsin.domain.delivery.outcome import Rejected
from tocsin.providers.rendering import encode_within, given, links, seconds_left, web_address
from tocsin.providers.webpush.crypto import PLAINTEXT_BYTES

LONGEST_TTL = 2_419_200

_TOPIC = re.compile(r"[A-Za-z0-9_-]{1,32}")
_TOPIC_CHARACTERS = 32


def render(message: Message) -> bytes | Rejected:
    """Render what the page's service worker reads, in the names of the browser's own notifications."""
    appearance = message.appearance
    content: dict[str, Any] = {
        "title": message.title,
        "body": message.body,
        "tag": message.collapse_key or str(message.delivery_id),
        "data": {**message.data, **links(appearance)},
    }
    # An icon may be a drawable of an Android app, and a deep link a place in an app: nothing to a browser.
    content |= given(
        icon=web_address(appearance.icon),
        image=appearance.image,
        badge=appearance.badge,
        url=web_address(appearance.deep_link),
        lang=message.locale,
    )
    if appearance.severity != "info":
        content["severity"] = appearance.severity
    if appearance.push_type == "background":
        content["silent"] = True
    return encode_within(content, PLAINTEXT_BYTES, "a browser")


def headers(message: Message, now: datetime) -> dict[str, str]:
    """Render how the push service shall treat a message while the browser is away.

    Only a collapse key becomes a topic. FCM, which serves some browsers, keeps four collapse keys a device;
    should it count topics so, a topic for each message would lose messages.
    """
    left = seconds_left(message, now, LONGEST_TTL)
    rendered = {
        "ttl": str(LONGEST_TTL if left is None else left),
        "urgency": _urgency(message),
        "content-encoding": "aes128gcm",
        "content-type": "application/octet-stream",
    }
    if message.collapse_key:
        rendered["topic"] = _topic(message.collapse_key)
    return rendered


def _urgency(message: Message) -> str:
    if message.appearance.push_type == "background":
        return "low"
    return "normal" if message.appearance.severity == "info" else "high"


def _topic(collapse_key: str) -> str:
    if _TOPIC.fullmatch(collapse_key):
        return collapse_key
    return urlsafe_b64encode(hashlib.sha256(collapse_key.encode()).digest()).decode()[:_TOPIC_CHARACTERS]
