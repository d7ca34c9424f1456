"""Connections to hosts that somebody outside chose, each pinned to an address that the SSRF guard allowed."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Mapping

from pyreqwest.client import Client
from pyreqwest.exceptions import ConnectError, ConnectTimeoutError
from pyreqwest.http import Url
from pyreqwest.response import Response

from tocsin.providers.http.ca_file import read_ca_file
from tocsin.providers.http.pinned_clients import PinnedClients, post_request
from tocsin.providers.http.reply import Reply
from tocsin.providers.http.ssrf_guard import Guard, HostRefusedError, HostUnknownError
from tocsin.providers.settings import HttpProviderSettings, ManyHostsSettings

ADDRESS_SECONDS = 60.0
MOST_HOSTS = 256
ANSWER_BYTES = 4_096


class _Pinned:
    """The connections to one host, all to one of its addresses."""

    def __init__(self, clients: PinnedClients, address: str) -> None:
        self.clients = clients
        self.address = address
        self.fresh_until = 0.0
        self.failed = False


class GuardedConnections:
    """Keeps separate connections for each host and drops the least recently used.

    The HTTP client resolves no name by itself: each host's client gets the one address to connect to, so a
    name that is rebound after the check cannot lead into a private network (SSRF by DNS rebinding).
    """

    def __init__(self, guard: Guard, settings: HttpProviderSettings) -> None:
        self._guard = guard
        self._settings = settings
        self._per_host = settings.per_host if isinstance(settings, ManyHostsSettings) else None
        self._hosts: OrderedDict[str, _Pinned] = OrderedDict()
        # A name is resolved once for all who wait for it, and all of them wait no longer than one deadline.
        self._pinning: dict[str, asyncio.Task[_Pinned]] = {}
        # A CA file that cannot be read has to stop the start, not the first message.
        self._certificates = read_ca_file(settings.ca_file)

    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> Reply:
        """Post a body and read the beginning of the answer.

        Raises what `client_for` does, and the errors of the HTTP client.
        """
        async with asyncio.timeout(self._settings.timeout):
            client = await self.client_for(url)
            try:
                async with post_request(client, url, headers, body).build_streamed() as answer:
                    return Reply(answer.status, answer.headers, await _beginning(answer))
            except (ConnectError, ConnectTimeoutError):
                self.connection_failed(url)
                raise

    async def client_for(self, url: str) -> Client:
        """Return a client that reaches the host of this URL, and no other, at an allowed address.

        Raises HostRefusedError for what may not be called, HostUnknownError for a name without an address
        and TimeoutError when the resolver takes too long.
        """
        if fault := self._guard.fault(url):
            raise HostRefusedError(fault)
        host = Url(url).host_str or ""
        pinned = self._fresh(host)
        if pinned is None:
            pinning = self._pinning.get(host)
            if pinning is None:
                pinning = self._pinning[host] = asyncio.create_task(self._pin(host))
                pinning.add_done_callback(lambda done: self._pinned(host, done))
            pinned = await asyncio.shield(pinning)
        return pinned.clients.next()

    def connection_failed(self, url: str) -> None:
        """Record that no connection came about: another address of the host is tried next."""
        pinned = self._hosts.get(Url(url).host_str or "")
        if pinned:
            pinned.failed = True

    async def aclose(self) -> None:
        """Close every connection."""
        for pinning in list(self._pinning.values()):
            pinning.cancel()
        for pinned in self._hosts.values():
            await pinned.clients.aclose()
        self._hosts.clear()

    def _fresh(self, host: str) -> _Pinned | None:
        pinned = self._hosts.get(host)
        if pinned is None or pinned.failed or time.monotonic() >= pinned.fresh_until:
            return None
        self._hosts.move_to_end(host)
        return pinned

    def _pinned(self, host: str, done: "asyncio.Task[_Pinned]") -> None:
        del self._pinning[host]
        if not done.cancelled():
            # Retrieved, although everybody who waited for it may have given up.
            done.exception()

    async def _pin(self, host: str) -> _Pinned:
        present = self._hosts.get(host)
        try:
            async with asyncio.timeout(self._settings.connect_timeout):
                addresses = await self._guard.addresses(host)
        except (HostUnknownError, TimeoutError):
            # The address in use was allowed; a resolver that fails is no reason to leave it.
            if present is None or present.failed:
                raise
            addresses = [present.address]
        if present and present.address in addresses and not (present.failed and len(addresses) > 1):
            pinned = present
        else:
            last = present.address if present else None
            address = next((address for address in addresses if address != last), addresses[0])
            # Building a client reads every trusted certificate, which takes milliseconds.
            clients = await asyncio.to_thread(
                PinnedClients,
                self._settings,
                host,
                address,
                requests=self._per_host,
                certificates=self._certificates,
            )
            pinned = _Pinned(clients, address)
        pinned.failed = False
        pinned.fresh_until = time.monotonic() + ADDRESS_SECONDS
        self._hosts[host] = pinned
        self._hosts.move_to_end(host)
        while len(self._hosts) > MOST_HOSTS:
            self._hosts.popitem(last=False)
        return pinned


async def _beginning(answer: Response) -> bytes:
    """Read the first bytes of an answer: a host from outside may answer without end."""
    content = b""
    while len(content) < ANSWER_BYTES:
        part = await answer.body_reader.read(ANSWER_BYTES - len(content))
        if part is None:
            break
        content += bytes(part)
    return content
