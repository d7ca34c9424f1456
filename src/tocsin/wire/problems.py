"""The body of an error response (RFC 9457)."""

from collections.abc import Sequence
from uuid import UUID

import msgspec

from tocsin.domain.faults import Fault


class Problem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A problem: its stable `code`, and `errors` with every fault where a request has some."""

    code: str
    title: str = ""
    status: int = 0
    detail: str = ""
    errors: Sequence[Fault] | None = None
    notification_id: UUID | None = None
