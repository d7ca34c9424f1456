"""Connections to hosts that were named from outside: each goes to an address that the guard has judged."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from pathlib import Path
from weakref import WeakValueDictionary

import msgspec
from pyreqwest.client import Client
from pyreqwest.exceptions import ConnectError, ConnectTimeoutError
from pyreqwest.http import Url
from pyreqwest.response import Response

from tocsin.providers.http.client import Connections, authority
from tocsin.providers.http.ssrf_guard import Guard, HostRefusedError, HostUnknownError

ADDRESS_SECONDS = 60.0
MOST_HOSTS = 256
ANSWER_BYTES = 4_096


class Reply(msgspec.Struct, frozen=True):
    """An answer of a host; of its body no more than the beginning is ever read."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class _Pinned:
    """The connections to one host, all to one of its addresses."""

    def __init__(self, connections: Connections, address: str) -> None:
        self.connections = connections
        self.address = address
        self.fresh_until = 0.0
        self.failed = False


class GuardedConnections:
    """Keeps connections for each host apart, the longest unused first to go.

    The HTTP client resolves no name by itself: each host's client is given the one address to connect to.
    """

    def __init__(
        self,
        guard: Guard,
        *,
        concurrency: int,
        connect_timeout: float,
        timeout: float,
        ca_file: Path | None,
    ) -> None:
        self._guard = guard
        self._concurrency = concurrency
        self._connect_timeout = connect_timeout
        self._timeout = timeout
        self._ca_file = ca_file
        self._hosts: OrderedDict[str, _Pinned] = OrderedDict()
        # A name is looked up once for all who wait for it, and kept only as long as somebody does.
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        # A CA file that cannot be read has to stop the start, not the first message.
        authority(ca_file)

    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> Reply:
        """Send a body and read the answer, all within the time-out.

        Raises what `client_for` does, and the errors of the HTTP client.
        """
        async with asyncio.timeout(self._timeout):
            client = await self.client_for(url)
            request = client.post(url).body_bytes(body)
            for name, value in headers.items():
                request = request.header(name, value, is_sensitive=name == "authorization")
            try:
                async with request.build_streamed() as answer:
                    return Reply(answer.status, answer.headers, await _beginning(answer))
            except (ConnectError, ConnectTimeoutError):
                self.connection_failed(url)
                raise

    async def client_for(self, url: str) -> Client:
        """Give a client that reaches the host of this URL, and no other, at an allowed address.

        Raises HostRefusedError for what may not be called, HostUnknownError for a name without an address
        and TimeoutError when the resolver takes too long.
        """
        if fault := self._guard.fault(url):
            raise HostRefusedError(fault)
        host = Url(url).host_str or ""
        pinned = self._fresh(host)
        if pinned is None:
            lock = self._locks.setdefault(host, asyncio.Lock())
            async with lock:
                pinned = self._fresh(host) or await self._pin(host)
        return pinned.connections.next()

    def connection_failed(self, url: str) -> None:
        """Take note that no connection came about: another address of the host is tried next."""
        pinned = self._hosts.get(Url(url).host_str or "")
        if pinned:
            pinned.failed = True

    async def aclose(self) -> None:
        """Close every connection."""
        for pinned in self._hosts.values():
            await pinned.connections.aclose()
        self._hosts.clear()

    def _fresh(self, host: str) -> _Pinned | None:
        pinned = self._hosts.get(host)
        if pinned is None or pinned.failed or time.monotonic() >= pinned.fresh_until:
            return None
        self._hosts.move_to_end(host)
        return pinned

    async def _pin(self, host: str) -> _Pinned:
        present = self._hosts.get(host)
        try:
            async with asyncio.timeout(self._connect_timeout):
                addresses = await self._guard.addresses(host)
        except (HostUnknownError, TimeoutError):
            # The address in use was judged; a resolver that fails is no reason to leave it.
            if present is None or present.failed:
                raise
            addresses = [present.address]
        if present and present.address in addresses and not (present.failed and len(addresses) > 1):
            pinned = present
        else:
            address = _another(addresses, present.address if present else None)
            # Building a client reads every trusted certificate, which takes milliseconds.
            pinned = _Pinned(await asyncio.to_thread(self._open, (host, address)), address)
        pinned.failed = False
        pinned.fresh_until = time.monotonic() + ADDRESS_SECONDS
        self._hosts[host] = pinned
        self._hosts.move_to_end(host)
        while len(self._hosts) > MOST_HOSTS:
            self._hosts.popitem(last=False)
        return pinned

    def _open(self, pin: tuple[str, str]) -> Connections:
        return Connections(
            concurrency=self._concurrency,
            connect_timeout=self._connect_timeout,
            timeout=self._timeout,
            ca_file=self._ca_file,
            pin=pin,
        )


def _another(addresses: Sequence[str], last: str | None) -> str:
    return next((address for address in addresses if address != last), addresses[0])


async def _beginning(answer: Response) -> bytes:
    """Read as much as a message to an operator may need: a host from outside may answer without end."""
    content = b""
    while len(content) < ANSWER_BYTES:
        part = await answer.body_reader.read(ANSWER_BYTES - len(content))
        if part is None:
            break
        content += bytes(part)
    return content
