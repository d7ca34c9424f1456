"""The connections to one origin: opened and closed with demand, each request on the least loaded one."""

import asyncio
import math
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import TypeAlias

import structlog

from tocsin.providers.http.h2.connection import Connection
from tocsin.providers.http.h2.errors import (
    ClientClosedError,
    ConnectFailedError,
    RequestFailedError,
    RequestTimeoutError,
)
from tocsin.providers.http.h2.exchange import Exchange
from tocsin.providers.http.h2.header_fields import ResponseHeads

STREAMS_PER_CONNECTION = 100
"""With so many requests on each connection another one is opened."""

MOST_REPEATS = 3
"""How often a request is sent again that the peer certainly did not process."""

RETRY_SECONDS = 60.0
"""How long no connection is added after one could not be opened, or the peer asked for calm."""

IDLE_SECONDS = 60.0
ROTATE_SECONDS = 3_600.0
TICKS = 20
SHORTEST_TICK, LONGEST_TICK = 0.02, 0.5

Dial: TypeAlias = Callable[[Callable[[], Connection]], Awaitable[Connection]]

_log = structlog.stdlib.get_logger(__name__)


class Pool:
    """Carries requests until a connection has room for them.

    `most` is how many connections there may be. One is opened when all others are well used, and closed when
    it was idle for long; with `keeps_last` the last one stays, since Apple takes frequent new ones for an
    attack. All time-outs are kept by one timer, which is at most a twentieth of the shortest of them late.
    """

    def __init__(
        self, dial: Dial, *, most: int, timeout: float, connect_timeout: float, keeps_last: bool = True
    ) -> None:
        self._dial = dial
        self._most = most
        self._connect_timeout = connect_timeout
        self._tick_seconds = min(LONGEST_TICK, max(SHORTEST_TICK, min(timeout, connect_timeout) / TICKS))
        self._heads = ResponseHeads()
        self._connections: list[Connection] = []
        self._opening: dict[asyncio.Task[None], float] = {}
        # Not a deque: a batch that is cancelled takes its requests out one by one.
        self._waiting: OrderedDict[Exchange, None] = OrderedDict()
        self._current: Connection | None = None
        self._streams_each = STREAMS_PER_CONNECTION
        self._open_from = -math.inf
        self._timer: asyncio.TimerHandle | None = None
        self._keeps_last = keeps_last
        self._idle_seconds = IDLE_SECONDS
        self._closed = False

    @property
    def connections(self) -> int:
        """How many connections are open."""
        return len(self._connections)

    def send(self, exchange: Exchange) -> None:
        """Start a request, or keep it until there is room."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._tick_seconds, self._tick)
        connection = self._current
        # Requests of one turn of the loop stay together, so that they leave in one write.
        if (
            connection is None
            or not connection.writer.is_scheduled
            or (streams := len(connection.streams)) >= connection.limit
            or streams >= self._streams_each
        ):
            connection = self._current = None if self._waiting else self._least_loaded()
        if connection is not None:
            connection.start(exchange)
        elif self._closed:
            exchange.set_exception(ClientClosedError("the client is closed", may_be_processed=False))
        else:
            self._waiting[exchange] = None
            self._open_needed()

    async def aclose(self) -> None:
        """Close every connection and fail what has no answer yet."""
        self._closed = True
        opening = list(self._opening)
        for task in opening:
            task.cancel()
        if opening:
            await asyncio.wait(opening)
        for connection in list(self._connections):
            connection.close(ClientClosedError("the client was closed", may_be_processed=True))
        self._fail_waiting(ClientClosedError("the client was closed", may_be_processed=False))
        if self._timer is not None:
            self._timer.cancel()

    def leave(self) -> None:
        """Close each connection as soon as it is idle; what is under way is finished."""
        self._keeps_last, self._idle_seconds = False, 0.0
        for connection in list(self._connections):
            if not connection.streams:
                connection.retire()

    def cancel(self, exchange: Exchange) -> None:
        """Forget a request that waits for a connection."""
        del self._waiting[exchange]

    def on_room(self, connection: Connection) -> None:
        """Start what waits, on a connection that has room."""
        # Apple allows a single stream until it has seen a good token.
        if self._streams_each < STREAMS_PER_CONNECTION:
            self._streams_each = max(self._streams_each, min(connection.limit, STREAMS_PER_CONNECTION))
        while self._waiting and len(connection.streams) < connection.limit:
            connection.start(self._waiting.popitem(last=False)[0])

    def on_retired(self) -> None:
        """Open another connection for what waits: the answers of the old one may take long."""
        if self._waiting:
            self._open_needed()

    def on_closed(self, connection: Connection) -> None:
        """Forget a connection; what waits for it gets another."""
        if connection in self._connections:
            self._connections.remove(connection)
            if self._waiting:
                self._open_needed()

    def on_overload(self) -> None:
        """Add no connection for a while."""
        self._open_from = asyncio.get_running_loop().time() + RETRY_SECONDS

    def repeat(self, exchange: Exchange, error: RequestFailedError) -> None:
        """Send a request again that was certainly not processed, some times at most."""
        if self._closed or exchange.repeats >= MOST_REPEATS:
            exchange.set_exception(error)
            return
        exchange.begin_again(self)
        self.send(exchange)

    def _least_loaded(self) -> Connection | None:
        """Return the connection with the fewest streams of those that have room."""
        chosen, least = None, math.inf
        for connection in self._connections:
            load = len(connection.streams)
            if load < least and load < connection.limit:
                chosen, least = connection, load
        if chosen is not None and least >= self._streams_each:
            self._open_needed(starting=1)
        return chosen

    def _open_needed(self, *, starting: int = 0) -> None:
        """Open as many connections as the requests need; the first one whatever happened before."""
        live = [connection for connection in self._connections if not connection.retired]
        has_one = bool(live or self._opening)
        if self._closed or (has_one and asyncio.get_running_loop().time() < self._open_from):
            return
        requests = len(self._waiting) + sum(len(connection.streams) for connection in live) + starting
        needed = min(self._most, math.ceil(requests / self._streams_each))
        for _ in range(needed - len(live) - len(self._opening)):
            self._open()

    def _open(self, replaced: Connection | None = None) -> None:
        loop = asyncio.get_running_loop()
        task = loop.create_task(self._connect(replaced))
        self._opening[task] = loop.time() + self._connect_timeout

    async def _connect(self, replaced: Connection | None) -> None:
        """Open a connection and start what waits; retire the one that it replaces, if any."""
        try:
            opened = await self._try_to_connect()
        finally:
            if (task := asyncio.current_task()) is not None:
                self._opening.pop(task, None)
        if isinstance(opened, Connection):
            self._connections.append(opened)
            limit = max(connection.limit for connection in self._connections)
            self._streams_each = max(1, min(STREAMS_PER_CONNECTION, limit))
            if replaced is not None:
                replaced.retire()
            self.on_room(opened)
        elif any(not connection.retired for connection in self._connections):
            self.on_overload()
            _log.warning("connection not added", error=str(opened), retry_in_seconds=RETRY_SECONDS)
        elif not self._opening:
            self._fail_waiting(opened)

    async def _try_to_connect(self) -> Connection | RequestFailedError:
        try:
            connection = await self._dial(lambda: Connection(self, self._heads))
        except ConnectFailedError as failed:
            return failed
        except asyncio.CancelledError:
            if self._closed:
                raise
            return RequestTimeoutError("no connection in time", may_be_processed=False)
        except Exception as unexpected:  # noqa: BLE001 - whatever it is, nobody must wait for it in vain
            _log.exception("connection failed")
            return ConnectFailedError(type(unexpected).__name__)
        return ConnectFailedError("the peer left at once") if connection.retired else connection

    def _fail_waiting(self, error: RequestFailedError) -> None:
        waiting, self._waiting = self._waiting, OrderedDict()
        for exchange in waiting:
            exchange.set_exception(type(error)(*error.args, may_be_processed=False))

    def _tick(self) -> None:
        """Run the one timer: overdue requests and connections, silent peers, idle and old connections."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        is_needed = self._connections or self._opening or self._waiting
        self._timer = loop.call_later(self._tick_seconds, self._tick) if is_needed else None
        for task, due in self._opening.items():
            if now >= due:
                task.cancel()
        overdue = [exchange for exchange in self._waiting if exchange.deadline <= now]
        for exchange in overdue:
            del self._waiting[exchange]
            exchange.set_exception(RequestTimeoutError("no stream was free", may_be_processed=False))
        for connection in list(self._connections):
            connection.tick(now)
            self._rotate(connection, now)

    def _rotate(self, connection: Connection, now: float) -> None:
        """Retire an idle connection unless it is the last to keep; replace an old one: DNS is asked again."""
        if connection.retired:
            return
        if (
            not connection.streams
            and len(self._connections) > self._keeps_last
            and now - connection.idle_since >= self._idle_seconds
        ):
            connection.retire()
        elif now - connection.opened_at >= ROTATE_SECONDS and not self._opening:
            if not connection.streams:
                connection.retire()
            elif now >= self._open_from:
                self._open(connection)
