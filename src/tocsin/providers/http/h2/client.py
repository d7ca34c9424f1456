"""A client for one origin: a provider has one, and sends many small requests to it."""

import asyncio
import ssl
from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

from tocsin.http2.fields import content_length, field
from tocsin.http2.hpack_blocks import encode_name, encode_string
from tocsin.providers.http.ca_file import read_ca_file
from tocsin.providers.http.h2.dial import dial, parse_origin, proxy_for, tls_context
from tocsin.providers.http.h2.exchange import Exchange
from tocsin.providers.http.h2.header_fields import RequestHead, request_head
from tocsin.providers.http.h2.pool import STREAMS_PER_CONNECTION, Pool
from tocsin.providers.settings import HttpProviderSettings

_PATH = encode_name(b":path", sensitive=False)


class Pinned(NamedTuple):
    """The one address to connect to, and the TLS context to use there."""

    address: str
    tls: ssl.SSLContext


class Http2Client:
    """Sends POST requests to one origin over HTTP/2.

    `requests` is how many are under way at most, `max_concurrency` unless given. The CA file is read once; it
    may change or go while the process runs. One that is `pinned` uses no proxy, which would resolve the name
    again, and keeps no connection that is idle for long.
    """

    def __init__(
        self,
        base_url: str,
        settings: HttpProviderSettings,
        *,
        requests: int | None = None,
        pinned: Pinned | None = None,
    ) -> None:
        origin = self._origin = parse_origin(base_url)
        if pinned is None:
            tls = tls_context(read_ca_file(settings.ca_file)) if origin.secure else None
            open_one = partial(dial, origin, tls, proxy_for(origin))
        else:
            open_one = partial(dial, origin._replace(address=pinned.address), pinned.tls, None)
        self._timeout = settings.timeout
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pool = Pool(
            open_one,
            most=-(-(requests or settings.max_concurrency) // STREAMS_PER_CONNECTION),
            timeout=settings.timeout,
            connect_timeout=settings.connect_timeout,
            keeps_last=pinned is None,
        )
        self.bare_head = self.head({})
        """The head of requests whose headers are all given by `fields`."""

    @property
    def connections(self) -> int:
        """How many connections are open."""
        return self._pool.connections

    def head(self, headers: Mapping[str, str]) -> RequestHead:
        """Encode what requests with these headers have in common, for `post`."""
        origin = self._origin
        return request_head(secure=origin.secure, authority=origin.authority, headers=headers)

    def path(self, path: str) -> bytes:
        """Encode a path below the base URL, for `post`."""
        return field(":path", self._origin.base_path + path)

    def paths_below(self, path: str) -> Callable[[str], bytes]:
        """Return an encoder of paths that begin so; its caller has checked that the rest is fit for one."""
        self.path(path)
        begin = self._origin.base_path + path
        return lambda rest: _PATH + encode_string((begin + rest).encode())

    def post(
        self,
        head: RequestHead,
        path: bytes,
        body: bytes,
        fields: bytes = b"",
        *,
        enough: int | None = None,
        deadline: float | None = None,
    ) -> Exchange:
        """Send a request; awaited, what is returned gives the answer or raises RequestFailedError.

        `fields` are further header fields of this request, each encoded by `field`. The answer is cut after
        `enough` bytes. `deadline` is by the clock of the loop; the settings have the usual time-out.
        """
        # Kept: each look-up asks the kernel for the process id.
        loop = self._loop
        if loop is None:
            loop = self._loop = asyncio.get_running_loop()
        before_path, after_path = head
        block = b"".join((before_path, path, after_path, content_length(len(body)), fields))
        due = loop.time() + self._timeout if deadline is None else deadline
        exchange = Exchange(self._pool, block, body, due)
        if enough is not None:
            exchange.enough = enough
        self._pool.send(exchange)
        return exchange

    def leave(self) -> None:
        """Close each connection as soon as it is idle."""
        self._pool.leave()

    async def aclose(self) -> None:
        """Close every connection and fail what has no answer yet."""
        await self._pool.aclose()
