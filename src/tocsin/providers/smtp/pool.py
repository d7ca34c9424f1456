"""Connections to a mail server: few, kept while there is mail, one message at a time over each."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

import msgspec
from aiosmtplib import SMTP, SMTPException, SMTPNotSupported, SMTPResponseException

CLOSING = 421


class PoolSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How long connections are kept.

    One that lay idle past `ask_after` is asked whether it still lives before it is used, one past
    `close_after` is closed. Servers cap the messages of a connection, so it ends after `messages`.
    """

    ask_after: float = 5.0
    close_after: float = 30.0
    messages: int = 100
    farewell: float = 1.0


class SmtpConnection(SMTP):
    """A connection that ends at once: over TLS, a mere close would wait for the peer to agree."""

    def close(self) -> None:
        """End it, whatever is under way."""
        transport = self.transport
        super().close()
        if isinstance(transport, asyncio.WriteTransport):
            transport.abort()


class _Kept:
    """A connection and what it went through."""

    __slots__ = ("client", "idle_since", "messages")

    def __init__(self, client: SmtpConnection) -> None:
        self.client = client
        self.messages = 0
        self.idle_since = 0.0


class SmtpPool:
    """Lends connections, at most so many at once, and makes new ones as they break or age."""

    def __init__(
        self, make: Callable[[], SmtpConnection], size: int, settings: PoolSettings | None = None
    ) -> None:
        self._make = make
        self._settings = settings or PoolSettings()
        self._free = asyncio.Semaphore(size)
        self._idle: list[_Kept] = []
        self._lent: set[SmtpConnection] = set()
        self._sweep: asyncio.TimerHandle | None = None
        self._farewells: set[asyncio.Task[None]] = set()
        self._closed = False

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[SmtpConnection]:
        """Lend a connection for one message; whatever goes wrong but an answer of the server ends it."""
        async with self._free:
            kept = await self._take()
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
                self._put_back(kept)

    async def aclose(self) -> None:
        """Take leave of every connection; one that is still lent is broken off."""
        self._closed = True
        if self._sweep:
            self._sweep.cancel()
        for client in list(self._lent):
            client.close()
        leaving, self._idle = self._idle, []
        await asyncio.gather(*(self._leave(kept.client) for kept in leaving), *self._farewells)

    async def _take(self) -> _Kept:
        now = asyncio.get_running_loop().time()
        while self._idle:
            kept = self._idle.pop()
            if now - kept.idle_since < self._settings.ask_after:
                if kept.client.is_connected:
                    return kept
            elif await _lives(kept.client):
                return kept
            kept.client.close()
        client = self._make()
        await client.connect()
        return _Kept(client)

    def _put_back(self, kept: _Kept) -> None:
        kept.messages += 1
        if self._closed:
            kept.client.close()
        if not kept.client.is_connected:
            return
        loop = asyncio.get_running_loop()
        if kept.messages >= self._settings.messages:
            self._say_farewell(kept.client)
            return
        kept.idle_since = loop.time()
        self._idle.append(kept)
        if self._sweep is None:
            self._sweep = loop.call_later(self._settings.close_after, self._close_idle)

    def _close_idle(self) -> None:
        """Close what lay idle for too long; the longest idle lie first."""
        loop = asyncio.get_running_loop()
        oldest = loop.time() - self._settings.close_after
        aged = [kept for kept in self._idle if kept.idle_since <= oldest]
        self._idle = self._idle[len(aged) :]
        for kept in aged:
            self._say_farewell(kept.client)
        self._sweep = None
        if self._idle:
            self._sweep = loop.call_at(
                self._idle[0].idle_since + self._settings.close_after, self._close_idle
            )

    def _say_farewell(self, client: SmtpConnection) -> None:
        """Let a connection go without keeping anyone waiting."""
        task = asyncio.get_running_loop().create_task(self._leave(client))
        self._farewells.add(task)
        task.add_done_callback(self._farewells.discard)

    async def _leave(self, client: SmtpConnection) -> None:
        try:
            # A server that does not answer a farewell has lost nothing.
            with suppress(SMTPException, OSError):
                async with asyncio.timeout(self._settings.farewell):
                    await client.quit()
        finally:
            client.close()


async def _lives(client: SmtpConnection) -> bool:
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
