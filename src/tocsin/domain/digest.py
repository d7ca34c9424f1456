"""Several notifications told as one: what they are collected by, and what their texts can speak of."""

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


def collected_by(kind: NotificationType, payload: Payload) -> str | None:
    """Name what notifications of a type are collected by, besides the recipient and the channel.

    A version that keeps its own texts is collected by itself.
    """
    digest = kind.policies.digest
    if digest is None:
        return None
    name = f"{kind.name}@{kind.version}"
    if digest.by is None:
        return name
    value = _encoder.encode(payload.get(digest.by))
    shown = value.decode() if len(value) <= _LONGEST_VALUE else hashlib.sha256(value).hexdigest()
    return f"{name}:{shown}"


def digest_payload(payloads: Sequence[Payload], count: int | None = None) -> Payload:
    """Give what the texts of a digest see: the newest payload, the newest ones as a list, and how many.

    Payloads come oldest first; `count` is given where there are more of them.
    """
    shown = payloads[-MOST_ITEMS:]
    return {**payloads[-1], ITEMS: shown, COUNT: len(payloads) if count is None else count}
