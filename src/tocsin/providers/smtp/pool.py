"""A pool of connections to a mail server: kept while there is mail, each for one message at a time."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import cast

import msgspec
from aiosmtplib import SMTP, SMTPException, SMTPNotSupported, SMTPResponseException

CLOSING = 421


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


class SmtpConnection(SMTP):
    """A connection that closes at once: over TLS, a plain close would wait for the peer to agree.

    It knows how many messages it was lent for, since when it is idle, and when that ends.
    """

    messages = 0
    idle_since = 0.0
    idle_end: asyncio.TimerHandle | None = None

    def close(self) -> None:
        """Abort the transport, whatever is under way."""
        transport = cast("asyncio.WriteTransport | None", self.transport)
        super().close()
        # Those of uvloop are of no class of asyncio.
        if transport is not None:
            transport.abort()


class SmtpPool:
    """Lends at most `size` connections at once and replaces them as they break or age."""

    def __init__(
        self, make: Callable[[], SmtpConnection], size: int, settings: SmtpPoolSettings | None = None
    ) -> None:
        self._make = make
        self._settings = settings or SmtpPoolSettings()
        self._free = asyncio.Semaphore(size)
        self._idle: list[SmtpConnection] = []
        self._lent: set[SmtpConnection] = set()
        self._quitting: set[asyncio.Task[None]] = set()
        self._closed = False

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[SmtpConnection]:
        """Lend a connection for one message; any error but an answer of the server closes it."""
        async with self._free:
            client = await self._checkout()
            self._lent.add(client)
            try:
                yield client
            except BaseException as error:
                is_answer = isinstance(error, SMTPResponseException) and error.code != CLOSING
                if not is_answer and not isinstance(error, SMTPNotSupported):
                    client.close()
                raise
            finally:
                self._lent.discard(client)
                self._checkin(client)

    async def aclose(self) -> None:
        """Quit every idle connection and abort those still lent."""
        self._closed = True
        for client in list(self._lent):
            client.close()
        while self._idle:
            self._quit_later(self._pop_idle())
        await asyncio.gather(*self._quitting)

    async def _checkout(self) -> SmtpConnection:
        now = asyncio.get_running_loop().time()
        while self._idle:
            client = self._pop_idle()
            if now - client.idle_since >= self._settings.check_after:
                await _check(client)
            if client.is_connected:
                return client
            client.close()
        client = self._make()
        await client.connect()
        return client

    def _checkin(self, client: SmtpConnection) -> None:
        client.messages += 1
        if self._closed:
            client.close()
        if not client.is_connected:
            return
        loop = asyncio.get_running_loop()
        if client.messages >= self._settings.messages:
            self._quit_later(client)
            return
        client.idle_since = loop.time()
        client.idle_end = loop.call_later(self._settings.close_after, self._quit_idle, client)
        self._idle.append(client)

    def _pop_idle(self) -> SmtpConnection:
        """Return the connection that was idle for the shortest time."""
        client = self._idle.pop()
        if client.idle_end:
            client.idle_end.cancel()
        return client

    def _quit_idle(self, client: SmtpConnection) -> None:
        """Quit a connection that was idle for too long."""
        self._idle.remove(client)
        self._quit_later(client)

    def _quit_later(self, client: SmtpConnection) -> None:
        """Quit a connection in the background."""
        task = asyncio.get_running_loop().create_task(self._quit(client))
        self._quitting.add(task)
        task.add_done_callback(self._quitting.discard)

    async def _quit(self, client: SmtpConnection) -> None:
        try:
            # Nothing is lost if the server does not answer QUIT.
            with suppress(SMTPException, OSError):
                async with asyncio.timeout(self._settings.quit_seconds):
                    await client.quit()
        finally:
            client.close()


async def _check(client: SmtpConnection) -> None:
    """Close a connection that does not answer NOOP, or that is left before it did."""
    try:
        await client.noop()
    except BaseException as error:
        client.close()
        if not isinstance(error, SMTPException | OSError):
            raise
