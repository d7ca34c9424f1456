"""The sessions of one gateway process: who is connected, and what waits to be sent to each."""

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Iterator
from enum import Enum
from typing import NamedTuple, TypeAlias

from tocsin.gateway.events import ClientEvent
from tocsin.gateway.history import History
from tocsin.gateway.settings import GatewaySettings
from tocsin.telemetry import metrics
from tocsin.wire.streams.entry_ids import EntryId

UNKNOWN = EntryId(-1, 0)
"""Before every entry of the stream, where a client's own position is not in it."""


class Ending(Enum):
    """Why a session ends; each has the close code of a WebSocket."""

    TOKEN_EXPIRED = 4401
    RESTART = 1012
    SLOW = 1013
    MESSAGE_RECEIVED = 1008
    PROTOCOL_ERROR = 1002
    CLIENT_TIMEOUT = 4408
    CLOSED_BY_CLIENT = 1000

    @property
    def reason(self) -> str:
        """The reason as clients and metrics get it."""
        return self.name.lower()


class Reset(NamedTuple):
    """Events may be missing before what follows."""


Item: TypeAlias = ClientEvent | Reset


class TooManySessionsError(Exception):
    """The user, or the process, has as many sessions as it may have."""


class Person(NamedTuple):
    """Whose session it is, by their token; it ends in `seconds`."""

    user_id: str
    device_session_id: str | None
    seconds: float


class Session:
    """One connection of a user, with a bounded queue of what waits to be sent to it.

    It is open once something can be sent to the client. Events up to `seen` are not queued. What was missed
    before the session began is not counted in the bound.
    """

    def __init__(self, person: Person, transport: str, settings: GatewaySettings) -> None:
        self.person = person
        self.transport = transport
        self.ending: Ending | None = None
        self.is_open = False
        self.seen = EntryId(0, 0)
        self._settings = settings
        self._waiting: deque[Item] = deque()
        self._missed = 0
        self._bytes = 0
        self._wake = asyncio.Event()
        self._limit: asyncio.Timeout | None = None

    def resume(self, history: History, after: EntryId) -> None:
        """Queue what was missed after an entry; where that is not known in full, a reset comes first."""
        self.seen = after
        missed = history.of_user(self.person.user_id, after)
        if after < history.complete_after or not all(event.is_known for event in missed):
            self._waiting.append(Reset())
        self._waiting.extend(event for event in missed if event.is_known and self._is_for(event))
        self._missed = len(self._waiting)

    def offer(self, item: Item) -> None:
        """Queue an item; at the bound the session is too slow and is interrupted."""
        if isinstance(item, ClientEvent):
            if item.id <= self.seen or not self._is_for(item):
                return
            self._bytes += item.size
        if (
            len(self._waiting) - self._missed >= self._settings.queue_events
            or self._bytes > self._settings.queue_bytes
        ):
            self.interrupt(Ending.SLOW)
            return
        self._waiting.append(item)
        self._wake.set()

    def _is_for(self, event: ClientEvent) -> bool:
        return event.device_session_id in {None, self.person.device_session_id}

    async def next(self, within: float) -> Item | None:
        """Return the next item; None if there is none in time, or if the session is to end and none waits."""
        if not self._waiting and self.ending is None:
            self._wake.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(within):
                    await self._wake.wait()
        if not self._waiting:
            return None
        item = self._waiting.popleft()
        if self._missed:
            self._missed -= 1
        elif isinstance(item, ClientEvent):
            self._bytes -= item.size
        return item

    def finish(self, ending: Ending) -> None:
        """End the session once what waits was sent."""
        self.ending = self.ending or ending
        self._wake.set()

    def interrupt(self, ending: Ending) -> None:
        """End the session at once, also in the middle of sending."""
        self.finish(ending)
        if self._limit is not None and not self._limit.expired():
            self._limit.reschedule(asyncio.get_running_loop().time())

    @contextlib.asynccontextmanager
    async def until_ended(self) -> AsyncIterator[None]:
        """Run a body until it returns, the token expires or the session is interrupted; see `ending`."""
        limit = self._limit = asyncio.timeout(self.person.seconds)
        try:
            async with limit:
                yield
        except TimeoutError:
            if not limit.expired():
                raise
            self.finish(Ending.TOKEN_EXPIRED)
        finally:
            self._limit = None


class Sessions:
    """The sessions by user, and where in the stream they are.

    `position` is the entry that was read last; None until the stream was read for the first time. Events are
    published and sessions opened without a pause in between, so that a session gets what the history has up
    to the position, and from then on what is published: nothing is left out or sent twice.
    """

    def __init__(self, settings: GatewaySettings) -> None:
        self.history = History(settings.history)
        self.has_position = asyncio.Event()
        self.is_stopping = False
        self._settings = settings
        self._by_user: dict[str, set[Session]] = {}
        self._count = 0
        self._empty = asyncio.Event()
        self._empty.set()
        self._position: EntryId | None = None

    @property
    def position(self) -> EntryId | None:
        """The entry that was read last."""
        return self._position

    @position.setter
    def position(self, position: EntryId) -> None:
        self._position = position
        self.has_position.set()

    def publish(self, event: ClientEvent) -> bool:
        """Offer an event to the sessions of its user; return whether there are any."""
        self.history.add(event)
        sessions = self._by_user.get(event.user_id)
        for session in tuple(sessions or ()):
            session.offer(event)
        return sessions is not None

    def has_user(self, user_id: str) -> bool:
        """Return whether a user has a session."""
        return user_id in self._by_user

    def restart_at(self, position: EntryId) -> None:
        """Continue after a gap in the stream: every session is told that events may be missing."""
        self.history.clear(position)
        for session in self._all():
            session.seen = EntryId(0, 0)
            session.offer(Reset())

    @contextlib.contextmanager
    def opened(self, person: Person, transport: str, after: EntryId | None) -> Iterator[Session]:
        """Add a session for as long as the context is open; it continues after an entry, if one is given.

        Raise TooManySessionsError if the user or the process has as many as it may have.
        """
        of_user = self._by_user.get(person.user_id, ())
        if len(of_user) >= self._settings.max_sessions_per_user:
            raise TooManySessionsError(f"You have {len(of_user)} sessions already; close one.")
        if self._count >= self._settings.max_sessions:
            raise TooManySessionsError("There are too many sessions; retry.")
        session = Session(person, transport, self._settings)
        if after is not None:
            session.resume(self.history, after)
        self._add(session)
        try:
            yield session
        finally:
            self._remove(session)

    async def drain(self, seconds: float) -> None:
        """End every session once what waits for it was sent; at once when the time is over."""
        self.is_stopping = True
        for session in self._all():
            if session.is_open:
                session.finish(Ending.RESTART)
            else:
                session.interrupt(Ending.RESTART)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._empty.wait()
        for session in self._all():
            session.interrupt(Ending.RESTART)

    def _all(self) -> list[Session]:
        return [session for sessions in self._by_user.values() for session in sessions]

    def _add(self, session: Session) -> None:
        self._by_user.setdefault(session.person.user_id, set()).add(session)
        self._count += 1
        self._empty.clear()
        metrics.gateway_sessions.add((session.transport,), 1)

    def _remove(self, session: Session) -> None:
        of_user = self._by_user[session.person.user_id]
        of_user.remove(session)
        if not of_user:
            del self._by_user[session.person.user_id]
        self._count -= 1
        if not self._count:
            self._empty.set()
        metrics.gateway_sessions.add((session.transport,), -1)
        ending = session.ending or Ending.CLOSED_BY_CLIENT
        metrics.gateway_sessions_ended.add((session.transport, ending.reason))
