"""The answers to intents, and intents that cannot be decoded."""

from collections.abc import Sequence

import msgspec

from tocsin.domain.faults import Fault
from tocsin.wire.answers import Accepted, Answer, Conflict, Duplicate, Invalid

__all__ = ["Accepted", "Answer", "Conflict", "Duplicate", "Invalid", "Unreadable"]


class Unreadable(msgspec.Struct, frozen=True, kw_only=True):
    """An intent that cannot be decoded; it is recorded as refused."""

    faults: Sequence[Fault]
    content: str
    type: str | None = None
    idempotency_key: str | None = None
