"""One round of publishing: the messages of some rows, the order they go in, and what comes of each row."""

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from tocsin.aws.publisher.calls import Refusal
from tocsin.aws.publisher.messages import Group, groups
from tocsin.ingress.outbox.refusals import refused
from tocsin.ingress.outbox.rows import Failed, Held, Position, Published, Row, RowResult
from tocsin.store.sources.publications import Publication
from tocsin.wire.fisa.envelope import FisaEnvelope

LONGEST_HOLD = timedelta(minutes=15)
"""After so long a row that is held is taken again: the refused one may have been retried or deleted."""
HELD_REASON = "waits behind an earlier message of the same recipient, which SNS refused"


class OpenRow:
    """A row that is being published: to whom it was, by whom it was refused, and who waits."""

    def __init__(self, row: Row, key: UUID, envelope: FisaEnvelope, published: Collection[UUID]) -> None:
        self.row = row
        self.key = key
        self.envelope = envelope
        self.groups = groups(envelope)
        self.published = set(published)
        self.refused: dict[UUID, Refusal] = {}
        self.held: dict[UUID, OpenRow | Position] = {}

    @property
    def waiting(self) -> list[Group]:
        """The recipients that it was not published to yet."""
        return [group for group in self.groups if group.key not in self.published]

    def result(self, now: datetime) -> RowResult | None:
        """Return the result of the row; None if it is to be taken again at once."""
        if not self.waiting:
            return Published(self.row.id)
        if self.refused:
            return self._failed(now)
        if self.held:
            retry_at = min(_retry_at(earlier, now) for earlier in self.held.values())
            return Held(id=self.row.id, retry_at=min(retry_at, now + LONGEST_HOLD), reason=HELD_REASON)
        return None

    def _failed(self, now: datetime) -> Failed:
        codes = ", ".join(sorted(set(self.refused.values())))
        error = f"SNS refused it for {len(self.refused)} of {len(self.groups)} recipients ({codes})"
        return refused(self.row, error, now)

    def publication(self) -> Publication | None:
        """Return what has to be remembered of the row; None if it is published, or nothing happened to it."""
        waiting = [group.key for group in self.waiting]
        if not waiting or not (self.published or self.refused or self.held):
            return None
        return Publication(self.key, self.published, waiting)


def _retry_at(earlier: "OpenRow | Position", now: datetime) -> datetime:
    """Return when the row that another waits behind is retried: the two are due at the same time."""
    if isinstance(earlier, OpenRow):
        return refused(earlier.row, "", now).retry_at
    return earlier.retry_at or now + LONGEST_HOLD


class Pending(NamedTuple):
    """One message that waits to be published."""

    row: OpenRow
    group: Group


class Round:
    """The messages of rows in waves. Of a FIFO topic, a wave has at most one message of each group.

    A message is held if an earlier one of its group is refused, or waits in a row that is not due: `waiting`
    are the first such rows.
    """

    def __init__(self, rows: Sequence[OpenRow], waiting: Mapping[UUID, Position], *, fifo: bool) -> None:
        self.rows = rows
        self._fifo = fifo
        self._queues: dict[object, deque[Pending]] = {}
        for row in rows:
            for group in row.waiting:
                if (earlier := waiting.get(group.key)) is not None and earlier < row.row.position:
                    row.held[group.key] = earlier
                    continue
                key = group.key if fifo else (row.key, group.key)
                self._queues.setdefault(key, deque()).append(Pending(row, group))

    def wave(self) -> list[Pending]:
        """List the messages that can be published now, each until it is settled."""
        return [queue[0] for queue in self._queues.values()]

    def settle(self, pending: Pending, refusal: Refusal | None) -> None:
        """Record what came of a message."""
        row, group = pending
        key = group.key if self._fifo else (row.key, group.key)
        queue = self._queues[key]
        queue.popleft()
        if refusal is None:
            row.published.add(group.key)
        else:
            row.refused[group.key] = refusal
            for later in queue:
                later.row.held[group.key] = row
        if refusal is not None or not queue:
            del self._queues[key]

    def counts(self) -> Mapping[str, int]:
        """Count the messages that were refused or held."""
        return {
            "refused": sum(len(row.refused) for row in self.rows),
            "held": sum(len(row.held) for row in self.rows),
        }
