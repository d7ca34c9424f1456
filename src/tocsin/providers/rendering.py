"""What the renderers of several providers share."""

import hashlib
from datetime import datetime
from typing import Any

from tocsin.domain.delivery.message import Message

LONGEST_COLLAPSE_ID = 64


def given(**fields: Any) -> dict[str, Any]:
    """Return the fields that have a value."""
    return {name: value for name, value in fields.items() if value is not None}


def web_address(text: str | None) -> str | None:
    """Return a text that is an https address, else None."""
    return text if text and text.startswith("https://") else None


def seconds_left(message: Message, now: datetime, most: int) -> int | None:
    """Return the time to live of a message in whole seconds, at most `most`; None if it does not expire."""
    if message.expires_at is None:
        return None
    return min(max(0, int((message.expires_at - now).total_seconds())), most)


def collapse_id(key: str) -> str:
    """Return a collapse key fit for Apple's header; one too long or not plain ASCII becomes its digest."""
    if len(key) <= LONGEST_COLLAPSE_ID and key.isascii() and key.isprintable():
        return key
    return hashlib.sha256(key.encode()).hexdigest()
