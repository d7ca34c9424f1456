"""HTTP/1.1 and HTTP/2 to hosts that somebody outside chose, at addresses that the SSRF guard allowed."""

import asyncio
from collections.abc import Mapping

from pyreqwest.client import Client
from pyreqwest.exceptions import ConnectError, ConnectTimeoutError
from pyreqwest.http import Url
from pyreqwest.response import Response

from tocsin.providers.http.ca_file import read_ca_file
from tocsin.providers.http.pinned_clients import PinnedClients, post_request
from tocsin.providers.http.pinned_hosts import PinnedHosts
from tocsin.providers.http.reply import Reply
from tocsin.providers.http.ssrf_guard import Guard, HostRefusedError
from tocsin.providers.settings import HttpProviderSettings, ManyHostsSettings

ANSWER_BYTES = 4_096


class GuardedConnections:
    """Posts to any host by a client of its own, which is pinned to an allowed address."""

    def __init__(self, guard: Guard, settings: HttpProviderSettings) -> None:
        self._guard = guard
        self._settings = settings
        self._per_host = settings.per_host if isinstance(settings, ManyHostsSettings) else None
        self._hosts = PinnedHosts(guard, settings.connect_timeout, self._connect)
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
        return (await self._hosts.get(host, host)).next()

    def connection_failed(self, url: str) -> None:
        """Record that no connection came about: another address of the host is tried next."""
        self._hosts.connection_failed(Url(url).host_str or "")

    async def aclose(self) -> None:
        """Close every connection."""
        await self._hosts.aclose()

    async def _connect(self, host: str, address: str) -> PinnedClients:
        # Building a client reads every trusted certificate, which takes milliseconds.
        return await asyncio.to_thread(
            PinnedClients,
            self._settings,
            host,
            address,
            requests=self._per_host,
            certificates=self._certificates,
        )


async def _beginning(answer: Response) -> bytes:
    """Read the first bytes of an answer: a host from outside may answer without end."""
    content = b""
    while len(content) < ANSWER_BYTES:
        part = await answer.body_reader.read(ANSWER_BYTES - len(content))
        if part is None:
            break
        content += bytes(part)
    return content
