"""The tickets that Expo issued, and their receipts."""

import time
import uuid
from collections.abc import Callable
from typing import Any

import msgspec

_KEPT = 200_000


class IssuedTicket(msgspec.Struct):
    """One accepted message; its receipt is decided the first time it is asked for."""

    token: str
    ready_at: float
    too_big: bool = False
    receipt: dict[str, Any] | None = None


class Tickets:
    """Tickets by their id; the oldest are forgotten past a bound."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, *, receipts_after_seconds: float = 0.0
    ) -> None:
        self.receipts_after_seconds = self._usual = receipts_after_seconds
        self._clock = clock
        self._tickets: dict[str, IssuedTicket] = {}

    def issue(self, token: str, *, too_big: bool) -> str:
        """Issue a ticket for an accepted message, and return its id."""
        if len(self._tickets) >= _KEPT:
            del self._tickets[next(iter(self._tickets))]
        ticket_id = str(uuid.uuid4())
        ready_at = self._clock() + self.receipts_after_seconds
        self._tickets[ticket_id] = IssuedTicket(token, ready_at, too_big)
        return ticket_id

    def ready(self, ticket_id: str) -> IssuedTicket | None:
        """Return a ticket whose receipt is available."""
        ticket = self._tickets.get(ticket_id)
        return ticket if ticket and ticket.ready_at <= self._clock() else None

    def clear(self) -> None:
        """Forget every ticket, and make receipts available after the usual time."""
        self._tickets.clear()
        self.receipts_after_seconds = self._usual
