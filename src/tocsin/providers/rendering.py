"""What the renderers of several providers share."""

import hashlib
from collections.abc import Callable
from datetime import datetime
from typing import Any, TypeVar, TypeVarTuple

import msgspec

from tocsin.domain.delivery.message import Message, PushAppearance
from tocsin.domain.delivery.outcome import Rejected

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

LONGEST_COLLAPSE_ID = 64

_encoder = msgspec.json.Encoder()


def encode_within(content: dict[str, Any], most: int, taker: str) -> bytes | Rejected:
    """Encode content as JSON; more bytes than the taker accepts are rejected."""
    body = _encoder.encode(content)
    if len(body) > most:
        return Rejected("payload_too_large", f"{len(body)} bytes; {taker} takes {most}")
    return body


def given(**fields: Any) -> dict[str, Any]:
    """Return the fields that have a value."""
    return {name: value for name, value in fields.items() if value is not None}


def links(appearance: PushAppearance) -> dict[str, str]:
    """Return the place to open as data for the app."""
    return given(deep_link=appearance.deep_link, route=appearance.route)


def apple_alert(appearance: PushAppearance) -> dict[str, Any]:
    """Return what Apple's block `aps` says of an alert besides its texts."""
    aps = given(sound=appearance.sound, badge=appearance.badge, category=appearance.click_action)
    if appearance.image is not None:
        # Lets the app's service extension fetch the image before the alert is shown.
        aps["mutable-content"] = 1
    if appearance.severity == "critical":
        # Apple's own level `critical` needs its consent for each app.
        aps["interruption-level"] = "time-sensitive"
    return aps


def web_address(text: str | None) -> str | None:
    """Return a text that is an https address, else None."""
    return text if text and text.startswith("https://") else None


def seconds_left(message: Message, now: datetime, most: int) -> int | None:
    """Return the time to live of a message in whole seconds, at most `most`; None if it does not expire."""
    return None if message.expires_at is None else seconds_until(message.expires_at, now, most)


def seconds_until(end: datetime, now: datetime, most: int) -> int:
    """Return how many whole seconds are left until an end, at most `most`."""
    return min(max(0, int((end - now).total_seconds())), most)


def remember_last(function: Callable[[*Ts], T]) -> Callable[[*Ts], T]:
    """Return a function that is not called again for the arguments of the last call.

    Messages that were accepted together expire together: what is written of a time repeats from one to the
    next. To compare two times is cheaper than to write one, and to look one up by its hash is not.
    """
    known: tuple[tuple[*Ts], T] | None = None

    def remembering(*arguments: *Ts) -> T:
        nonlocal known
        if known is None or known[0] != arguments:
            known = arguments, function(*arguments)
        return known[1]

    return remembering


def collapse_id(key: str) -> str:
    """Return a collapse key fit for Apple's header; one too long or not plain ASCII becomes its digest."""
    if len(key) <= LONGEST_COLLAPSE_ID and key.isascii() and key.isprintable() and key == key.strip():
        return key
    return hashlib.sha256(key.encode()).hexdigest()
