"""The answer of a host."""

from collections.abc import Mapping
from datetime import datetime, timedelta

import msgspec

from tocsin.domain.delivery.retry_after import read_retry_after


class Reply(msgspec.Struct, frozen=True):
    """An answer of a host, with its body or the first bytes of it."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def retry_after(self, now: datetime) -> timedelta | None:
        """Return how long the host asks to wait."""
        return read_retry_after(self.headers.get("retry-after"), now)
