"""Clients for one host that somebody outside chose, pinned to one of its addresses."""

from collections.abc import Mapping
from datetime import timedelta
from itertools import cycle

from pyreqwest.client import Client, ClientBuilder
from pyreqwest.request import RequestBuilder

from tocsin.providers.settings import HttpProviderSettings

STREAMS_PER_CONNECTION = 100


class PinnedClients:
    """Clients used in turn; each keeps one HTTP/2 connection to the peer, or some of HTTP/1.1.

    `requests` is how many are under way at most, `max_concurrency` unless given. Whatever the name of `host`
    resolves to, they connect to `address`. `certificates` are trusted besides the usual ones.
    """

    def __init__(
        self,
        settings: HttpProviderSettings,
        host: str,
        address: str,
        *,
        requests: int | None,
        certificates: bytes | None,
    ) -> None:
        count = -(-(requests or settings.max_concurrency) // STREAMS_PER_CONNECTION)
        self._clients = [_client(settings, certificates, host, address) for _ in range(count)]
        self._turns = cycle(self._clients)

    def next(self) -> Client:
        """Return the client whose turn it is."""
        return next(self._turns)

    def leave(self) -> None:
        """Do nothing: the sockets go with the last request that holds a client."""

    async def aclose(self) -> None:
        """Close every connection; the sockets go when nobody holds the clients any more."""
        for client in self._clients:
            await client.close()
        self._clients.clear()
        self._turns = cycle(self._clients)


def post_request(client: Client, url: str, headers: Mapping[str, str], body: bytes) -> RequestBuilder:
    """Build a request whose authorization stays out of logs."""
    request = client.post(url).body_bytes(body)
    for name, value in headers.items():
        request = request.header(name, value, is_sensitive=name == "authorization")
    return request


def _client(settings: HttpProviderSettings, certificates: bytes | None, host: str, address: str) -> Client:
    builder = (
        ClientBuilder()
        .http2(enable=True)
        .connect_timeout(timedelta(seconds=settings.connect_timeout))
        .timeout(timedelta(seconds=settings.timeout))
        .follow_redirects(enable=False)
        .error_for_status(enable=False)
        .http2_keep_alive_interval(timedelta(seconds=30))
        .http2_keep_alive_timeout(timedelta(seconds=10))
        # A proxy would resolve the name again by itself, so none is used; port 0 means the URL's own.
        .resolve(host, address, 0)
        .no_proxy()
        # A small answer from outside must not unfold into a large one.
        .gzip(False)
        .brotli(False)
        .zstd(False)
        .deflate(False)
    )
    if certificates:
        builder = builder.add_root_certificate_pem(certificates)
    return builder.build()
