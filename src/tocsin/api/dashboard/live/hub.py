"""The viewers of one process, and one reader for each part of a page that they look at."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Hashable, Iterator
from typing import TypeAlias

import structlog

from tocsin.api.http.event_streams import event
from tocsin.store.pool import AWAY

READ_SECONDS = 2.0
"""As often as processes write their counts."""
LONGEST_READING = 10.0
"""Seconds after which a database that does not answer counts as unavailable."""
MOST_STREAMS = 200
MOST_OF_SESSION = 4
"""Browsers open six connections to a server over HTTP/1.1, and need some of them for other things."""

Read: TypeAlias = Callable[[], Awaitable[str]]
"""Reads the state of a part and renders it."""

STALE = event("stale", "")
_log = structlog.stdlib.get_logger(__name__)


class TooManyStreamsError(Exception):
    """The session, or the process, has as many streams as it may have."""


class Viewer:
    """One stream: it keeps the newest event alone, so that a slow client misses some and costs nothing."""

    def __init__(self, newest: bytes | None) -> None:
        self.is_ended = False
        self._newest = newest
        self._some = asyncio.Event()
        if newest is not None:
            self._some.set()

    def offer(self, newest: bytes) -> None:
        """Replace what was not sent yet."""
        self._newest = newest
        self._some.set()

    def end(self) -> None:
        """End the stream."""
        self.is_ended = True
        self._some.set()

    async def next(self, within: float) -> bytes | None:
        """Return the newest event once there is one; None if there is none in time, or the stream ends."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within):
                await self._some.wait()
        self._some.clear()
        newest, self._newest = self._newest, None
        return None if self.is_ended else newest


class LiveHub:
    """Reads each part that somebody looks at once for all who do, and offers them what changed."""

    def __init__(self, every: float = READ_SECONDS) -> None:
        self._every = every
        self._viewers: dict[Hashable, set[Viewer]] = {}
        self._readers: dict[Hashable, asyncio.Task[None]] = {}
        self._newest: dict[Hashable, bytes] = {}
        self._of_session: dict[str, int] = {}
        self._is_closed = False
        # However many parts are looked at, they take one connection of the pool.
        self._reading = asyncio.Lock()

    @property
    def streams(self) -> int:
        """How many streams are open."""
        return sum(map(len, self._viewers.values()))

    @contextlib.contextmanager
    def watching(self, part: Hashable, read: Read, session: str) -> Iterator[Viewer]:
        """Add a viewer of a part for as long as the context is open; the first one starts its reader.

        Raise TooManyStreamsError if the session or the process has as many as it may have.
        """
        if self._is_closed or self.streams >= MOST_STREAMS:
            raise TooManyStreamsError("This process has no more streams; the page is refreshed otherwise.")
        if self._of_session.get(session, 0) >= MOST_OF_SESSION:
            raise TooManyStreamsError(f"The session has {MOST_OF_SESSION} streams already.")
        viewer = Viewer(self._newest.get(part))
        self._of_session[session] = self._of_session.get(session, 0) + 1
        self._viewers.setdefault(part, set()).add(viewer)
        if part not in self._readers:
            self._readers[part] = asyncio.create_task(self._read_on(part, read))
        try:
            yield viewer
        finally:
            self._remove(part, viewer, session)

    def close(self) -> None:
        """End every stream, and refuse further ones."""
        self._is_closed = True
        for viewers in self._viewers.values():
            for viewer in viewers:
                viewer.end()

    def _remove(self, part: Hashable, viewer: Viewer, session: str) -> None:
        self._of_session[session] -= 1
        if not self._of_session[session]:
            del self._of_session[session]
        self._viewers[part].remove(viewer)
        if not self._viewers[part]:
            del self._viewers[part]
            self._newest.pop(part, None)
            self._readers.pop(part).cancel()

    async def _read_on(self, part: Hashable, read: Read) -> None:
        """Read a part until cancelled; viewers are told when that fails, and it is retried."""
        while True:
            try:
                async with self._reading, asyncio.timeout(LONGEST_READING):
                    newest = event("part", await read())
            except AWAY as error:
                _log.warning("live part not read", error=repr(error))
                newest = STALE
            except Exception:  # noqa: BLE001 - the page says that it is stale, the log why
                _log.exception("live part not read")
                newest = STALE
            if newest != self._newest.get(part):
                self._newest[part] = newest
                for viewer in self._viewers[part]:
                    viewer.offer(newest)
            await asyncio.sleep(self._every)
