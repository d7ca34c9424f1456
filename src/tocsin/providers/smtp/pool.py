"""A pool of sessions with a mail server: kept while there is mail, each for one message at a time."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import msgspec
from aiosmtplib import SMTPException, SMTPNotSupported, SMTPResponseException

from tocsin.providers.smtp.session import CLOSING, SmtpSession


class SmtpPoolSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How long connections are kept.

    One that was idle for `check_after` seconds is checked with NOOP before it is used, one idle for
    `close_after` is closed. Servers cap the messages of a connection, so it is closed after `messages`.
    `quit_seconds` is how long QUIT may take.
    """

    check_after: float = 5.0
    close_after: float = 30.0
    messages: int = 100
    quit_seconds: float = 1.0


class SmtpPool:
    """Lends at most `size` connections at once and replaces them as they break or age."""

    def __init__(
        self,
        open_one: Callable[[], Awaitable[SmtpSession]],
        size: int,
        settings: SmtpPoolSettings | None = None,
    ) -> None:
        self._open_one = open_one
        self._settings = settings or SmtpPoolSettings()
        self._free = asyncio.Semaphore(size)
        self._idle: list[SmtpSession] = []
        self._lent: set[SmtpSession] = set()
        self._quitting: set[asyncio.Task[None]] = set()
        self._next_sweep: asyncio.TimerHandle | None = None
        self._closed = False

    @asynccontextmanager
    async def session(self) -> AsyncIterator[SmtpSession]:
        """Lend a session for one message; any error but an answer of the server closes it."""
        async with self._free:
            session = await self._checkout()
            self._lent.add(session)
            try:
                yield session
            except BaseException as error:
                is_answer = isinstance(error, SMTPResponseException) and error.code != CLOSING
                if not is_answer and not isinstance(error, SMTPNotSupported):
                    session.close()
                raise
            finally:
                self._lent.discard(session)
                self._checkin(session)

    async def aclose(self) -> None:
        """Quit every idle connection and abort those still lent."""
        self._closed = True
        if self._next_sweep is not None:
            self._next_sweep.cancel()
        for session in list(self._lent):
            session.close()
        while self._idle:
            self._quit_later(self._idle.pop())
        await asyncio.gather(*self._quitting)

    async def _checkout(self) -> SmtpSession:
        now = asyncio.get_running_loop().time()
        while self._idle:
            session = self._idle.pop()
            if now - session.idle_since >= self._settings.check_after:
                await _check(session)
            if session.is_open:
                return session
            session.close()
        return await self._open_one()

    def _checkin(self, session: SmtpSession) -> None:
        session.messages += 1
        if self._closed:
            session.close()
        if not session.is_open:
            return
        if session.messages >= self._settings.messages:
            self._quit_later(session)
            return
        loop = asyncio.get_running_loop()
        session.idle_since = loop.time()
        self._idle.append(session)
        if self._next_sweep is None:
            self._next_sweep = loop.call_later(self._settings.close_after, self._quit_idle)

    def _quit_idle(self) -> None:
        """Quit the sessions that were idle for too long; those idle for the longest time come first."""
        loop = asyncio.get_running_loop()
        latest = loop.time() - self._settings.close_after
        while self._idle and self._idle[0].idle_since <= latest:
            self._quit_later(self._idle.pop(0))
        self._next_sweep = (
            loop.call_at(self._idle[0].idle_since + self._settings.close_after, self._quit_idle)
            if self._idle
            else None
        )

    def _quit_later(self, session: SmtpSession) -> None:
        """Quit a connection in the background."""
        task = asyncio.get_running_loop().create_task(self._quit(session))
        self._quitting.add(task)
        task.add_done_callback(self._quitting.discard)

    async def _quit(self, session: SmtpSession) -> None:
        try:
            # Nothing is lost if the server does not answer QUIT.
            with suppress(SMTPException, OSError):
                async with asyncio.timeout(self._settings.quit_seconds):
                    await session.quit()
        finally:
            session.close()


async def _check(session: SmtpSession) -> None:
    """Close a connection that does not answer NOOP, or that is left before it did."""
    try:
        await session.noop()
    except BaseException as error:
        session.close()
        if not isinstance(error, SMTPException | OSError):
            raise
