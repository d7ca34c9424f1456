"""The newest events of the stream in memory, for clients that resume."""

from collections import deque

from tocsin.gateway.events import ClientEvent
from tocsin.wire.streams.entry_ids import EntryId

MOST_BYTES = 64 * 1_048_576


class History:
    """Keeps the newest events, by user; beyond so many events or bytes the oldest are dropped.

    Everything of the stream after `complete_after` is here.
    """

    def __init__(self, most_events: int, most_bytes: int = MOST_BYTES) -> None:
        self._most_events = most_events
        self._most_bytes = most_bytes
        self._bytes = 0
        self._events: deque[ClientEvent] = deque()
        self._by_user: dict[str, deque[ClientEvent]] = {}
        self.complete_after = EntryId(0, 0)

    def add(self, event: ClientEvent) -> None:
        """Add the newest event."""
        self._events.append(event)
        self._by_user.setdefault(event.user_id, deque()).append(event)
        self._bytes += event.size
        while len(self._events) > self._most_events or self._bytes > self._most_bytes:
            self._drop_oldest()

    def clear(self, complete_after: EntryId) -> None:
        """Drop every event; what follows an entry will be added."""
        self._events.clear()
        self._by_user.clear()
        self._bytes = 0
        self.complete_after = complete_after

    def of_user(self, user_id: str, after: EntryId) -> list[ClientEvent]:
        """List the events of a user after an entry, oldest first."""
        newer: list[ClientEvent] = []
        for event in reversed(self._by_user.get(user_id, ())):
            if event.id <= after:
                break
            newer.append(event)
        return newer[::-1]

    def _drop_oldest(self) -> None:
        oldest = self._events.popleft()
        of_user = self._by_user[oldest.user_id]
        of_user.popleft()
        if not of_user:
            del self._by_user[oldest.user_id]
        self._bytes -= oldest.size
        self.complete_after = oldest.id
