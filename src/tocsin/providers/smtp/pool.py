"""A pool of connections to a mail server: kept while there is mail, each for one message at a time."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

import msgspec
from aiosmtplib import SMTP, SMTPException, SMTPNotSupported, SMTPResponseException

CLOSING = 421


class PoolSettings(msgspec.Struct, frozen=True, kw_only=True):
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
    """A connection that closes at once: over TLS, a plain close would wait for the peer to agree."""

    def close(self) -> None:
        """Abort the transport, whatever is under way."""
        transport = self.transport
        super().close()
        if isinstance(transport, asyncio.WriteTransport):
            transport.abort()


class _Kept:
    """A connection with its message count and the moment since when it is idle."""

    __slots__ = ("client", "idle_since", "messages")

    def __init__(self, client: SmtpConnection) -> None:
        self.client = client
        self.messages = 0
        self.idle_since = 0.0


class SmtpPool:
    """Lends at most `size` connections at once and replaces them as they break or age."""

    def __init__(
        self, make: Callable[[], SmtpConnection], size: int, settings: PoolSettings | None = None
    ) -> None:
        self._make = make
        self._settings = settings or PoolSettings()
        self._free = asyncio.Semaphore(size)
        self._idle: list[_Kept] = []
        self._lent: set[SmtpConnection] = set()
        self._sweep: asyncio.TimerHandle | None = None
        self._quitting: set[asyncio.Task[None]] = set()
        self._closed = False

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[SmtpConnection]:
        """Lend a connection for one message; any error but an answer of the server closes it."""
        async with self._free:
            kept = await self._checkout()
            self._lent.add(kept.client)
            try:
                yield kept.client
            except SMTPResponseException as error:
                if error.code == CLOSING:
                    kept.client.close()
                raise
            except SMTPNotSupported:
                raise
            except BaseException:
                kept.client.close()
                raise
            finally:
                self._lent.discard(kept.client)
                self._checkin(kept)

    async def aclose(self) -> None:
        """Quit every idle connection and abort those still lent."""
        self._closed = True
        if self._sweep:
            self._sweep.cancel()
        for client in list(self._lent):
            client.close()
        idle, self._idle = self._idle, []
        await asyncio.gather(*(self._quit(kept.client) for kept in idle), *self._quitting)

    async def _checkout(self) -> _Kept:
        now = asyncio.get_running_loop().time()
        while self._idle:
            kept = self._idle.pop()
            if now - kept.idle_since < self._settings.check_after:
                if kept.client.is_connected:
                    return kept
            elif await _is_alive(kept.client):
                return kept
            kept.client.close()
        client = self._make()
        await client.connect()
        return _Kept(client)

    def _checkin(self, kept: _Kept) -> None:
        kept.messages += 1
        if self._closed:
            kept.client.close()
        if not kept.client.is_connected:
            return
        loop = asyncio.get_running_loop()
        if kept.messages >= self._settings.messages:
            self._quit_later(kept.client)
            return
        kept.idle_since = loop.time()
        self._idle.append(kept)
        if self._sweep is None:
            self._sweep = loop.call_later(self._settings.close_after, self._close_idle)

    def _close_idle(self) -> None:
        """Close connections idle for too long; the longest idle come first."""
        loop = asyncio.get_running_loop()
        oldest = loop.time() - self._settings.close_after
        aged = [kept for kept in self._idle if kept.idle_since <= oldest]
        self._idle = self._idle[len(aged) :]
        for kept in aged:
            self._quit_later(kept.client)
        self._sweep = None
        if self._idle:
            self._sweep = loop.call_at(
                self._idle[0].idle_since + self._settings.close_after, self._close_idle
            )

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


async def _is_alive(client: SmtpConnection) -> bool:
    if not client.is_connected:
        return False
    try:
        await client.noop()
    except (SMTPException, OSError):
        return False
    except BaseException:
        client.close()
        raise
    return True
