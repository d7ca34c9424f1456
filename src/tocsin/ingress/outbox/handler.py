"""What a relay does with the rows that it has locked: accepts them, or publishes them elsewhere."""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from tocsin.domain.errors import TocsinError
from tocsin.ingress.outbox.rows import Position, Row, RowResult


class RowsBlockedError(TocsinError):
    """What the rows go to does not answer; no row is to blame, and none spends an attempt."""


class Handled(msgspec.Struct, frozen=True):
    """The results of rows; a row without one is taken again. `blocked` is why no more was done."""

    results: list[RowResult]
    blocked: RowsBlockedError | None = None


class RowHandler(Protocol):
    """Handles the rows of one outbox."""

    async def handle(self, rows: Sequence[Row], waiting: Sequence[Position]) -> Handled:
        """Handle rows; `waiting` are those that wait for a retry, if the rows go to a FIFO topic.

        RowsBlockedError may be raised if nothing was done for any row.
        """
        ...

    async def recorded(self, results: Sequence[RowResult]) -> None:
        """Go on after the results were recorded in the outbox, and that was committed."""
        ...
