"""HTTP/2 to hosts that somebody outside chose, at addresses that the SSRF guard allowed."""

import asyncio
from collections import OrderedDict
from collections.abc import Mapping
from functools import lru_cache

from pyreqwest.http import Url

from tocsin.http2.fields import field
from tocsin.providers.http.ca_file import read_ca_file
from tocsin.providers.http.guarded_client import ANSWER_BYTES, GuardedConnections
from tocsin.providers.http.h2.client import Http2Client, Pinned
from tocsin.providers.http.h2.dial import tls_context
from tocsin.providers.http.h2.errors import ConnectFailedError, NotHttp2Error, RequestTimeoutError
from tocsin.providers.http.pinned_hosts import PinnedHosts
from tocsin.providers.http.reply import Reply
from tocsin.providers.http.ssrf_guard import Guard, HostRefusedError
from tocsin.providers.settings import ManyHostsSettings

MOST_WITHOUT_HTTP2 = 1_024
_MOST_FIELDS = 2_048

# Most requests have the same headers, but for a few.
_field = lru_cache(_MOST_FIELDS)(field)


class GuardedHttp2:
    """Posts to few origins many times; one that does not speak HTTP/2 is called by the other HTTP client.

    That makes sense for push services: a handshake costs the event loop more than a request.
    """

    def __init__(self, guard: Guard, settings: ManyHostsSettings) -> None:
        self._guard = guard
        self._settings = settings
        self._tls = tls_context(read_ca_file(settings.ca_file), "h2", "http/1.1")
        self._origins = PinnedHosts(guard, settings.connect_timeout, self._connect)
        self._others = GuardedConnections(guard, settings)
        self._without_http2: OrderedDict[str, None] = OrderedDict()

    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> Reply:
        """Post a body and read the beginning of the answer.

        Raises HostRefusedError for what may not be called, HostUnknownError for a name without an address,
        TimeoutError when the resolver takes too long, and the errors of both HTTP clients.
        """
        if fault := self._guard.fault(url):
            raise HostRefusedError(fault)
        parsed = Url(url)
        origin = parsed.origin_ascii
        if origin in self._without_http2:
            self._without_http2.move_to_end(origin)
            return await self._others.post(url, headers, body)
        deadline = asyncio.get_running_loop().time() + self._settings.timeout
        client = self._origins.fresh(origin)
        if client is None:
            async with asyncio.timeout_at(deadline):
                client = await self._origins.get(origin, parsed.host_str or "")
        query = parsed.query_string
        path = client.path(f"{parsed.path}?{query}" if query else parsed.path)
        fields = b"".join([_field(name, value) for name, value in headers.items()])
        try:
            return await client.post(
                client.bare_head, path, body, fields, enough=ANSWER_BYTES, deadline=deadline
            )
        except NotHttp2Error:
            self._remember_without_http2(origin)
        except (ConnectFailedError, RequestTimeoutError) as error:
            if not error.may_be_processed:
                self._origins.connection_failed(origin)
            raise
        async with asyncio.timeout_at(deadline):
            return await self._others.post(url, headers, body)

    async def aclose(self) -> None:
        """Close every connection."""
        await self._origins.aclose()
        await self._others.aclose()

    async def _connect(self, origin: str, address: str) -> Http2Client:
        pinned = Pinned(address, self._tls)
        return Http2Client(origin, self._settings, requests=self._settings.per_host, pinned=pinned)

    def _remember_without_http2(self, origin: str) -> None:
        self._without_http2[origin] = None
        while len(self._without_http2) > MOST_WITHOUT_HTTP2:
            self._without_http2.popitem(last=False)
