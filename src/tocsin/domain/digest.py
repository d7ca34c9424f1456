"""Digests: several notifications in one message."""

import hashlib
from collections.abc import Sequence

import msgspec

from tocsin.domain.catalog import NotificationType, Payload

MOST_ITEMS = 50
ITEMS = "items"
COUNT = "count"
NAMES = (ITEMS, COUNT)

_LONGEST_VALUE = 64
_encoder = msgspec.json.Encoder(order="deterministic")


def digest_group(notification_type: NotificationType, payload: Payload) -> str | None:
    """Return what separates digests of a type, besides the recipient and the channel; None without a digest.

    A version that keeps its own texts has digests of its own.
    """
    digest = notification_type.policies.digest
    if digest is None:
        return None
    name = f"{notification_type.name}@{notification_type.version}"
    if digest.by is None:
        return name
    value = _encoder.encode(payload.get(digest.by))
    shown = value.decode() if len(value) <= _LONGEST_VALUE else hashlib.sha256(value).hexdigest()
    return f"{name}:{shown}"


def digest_payload(payloads: Sequence[Payload], count: int | None = None) -> Payload:
    """Build the payload of a digest: the newest one's fields, the newest ones as a list, and their number.

    Payloads come oldest first; `count` is the number where there are more of them.
    """
    shown = payloads[-MOST_ITEMS:]
    return {**payloads[-1], ITEMS: shown, COUNT: len(payloads) if count is None else count}
