"""HTTP/2 connections to a provider: several, because a peer caps the streams of each."""

import time
from collections.abc import Mapping
from datetime import datetime, timedelta
from itertools import cycle
from pathlib import Path

import msgspec
import structlog
from pyreqwest.client import Client, ClientBuilder
from pyreqwest.exceptions import PyreqwestError
from pyreqwest.request import RequestBuilder

from tocsin.domain.delivery.retry_after import read_retry_after
from tocsin.domain.errors import ProviderSetupError
from tocsin.providers.settings import HttpProviderSettings, read_file

STREAMS_PER_CONNECTION = 100
RETRY_SECONDS = 60.0

_log = structlog.stdlib.get_logger(__name__)


class Reply(msgspec.Struct, frozen=True):
    """An answer of a host, with its body or the first bytes of it."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def retry_after(self, now: datetime) -> timedelta | None:
        """Return how long the host asks to wait."""
        return read_retry_after(self.headers.get("retry-after"), now)


class Connections:
    """Clients used in turn; each keeps one HTTP/2 connection to the peer.

    `requests` is how many are under way at most, `max_concurrency` unless given. Clients are added as that
    many are; pinned ones, which are built in a thread, are all there from the start. `pin` is a host and
    the IP address to connect to for it, whatever its name resolves to. `certificates` are those of the CA
    file, which is read unless they are given; it may change or go while the process runs.
    """

    def __init__(
        self,
        settings: HttpProviderSettings,
        *,
        requests: int | None = None,
        pin: tuple[str, str] | None = None,
        certificates: bytes | None = None,
    ) -> None:
        self._most = -(-(requests or settings.max_concurrency) // STREAMS_PER_CONNECTION)
        self._settings = settings
        self._certificates = certificates or read_ca_file(settings.ca_file)
        self._clients = [_client(settings, self._certificates, pin) for _ in range(self._most if pin else 1)]
        self._turns = cycle(self._clients)
        self._under_way = 0
        self._add_from = 0.0

    def next(self) -> Client:
        """Return the client whose turn it is."""
        return next(self._turns)

    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> Reply:
        """Post a body and read the answer."""
        if (
            len(self._clients) * STREAMS_PER_CONNECTION
            <= self._under_way
            < self._most * STREAMS_PER_CONNECTION
        ):
            self._add_client()
        self._under_way += 1
        try:
            answer = await post_request(self.next(), url, headers, body).build().send()
            return Reply(answer.status, answer.headers, bytes(await answer.bytes()))
        finally:
            self._under_way -= 1

    def _add_client(self) -> None:
        """Add a client; if none can be built, those that there are do until the next try."""
        if time.monotonic() < self._add_from:
            return
        try:
            self._clients.append(_client(self._settings, self._certificates, None))
        except PyreqwestError as error:
            self._add_from = time.monotonic() + RETRY_SECONDS
            _log.warning("connection not added", error=type(error).__name__, retry_in_seconds=RETRY_SECONDS)
        else:
            self._turns = cycle(self._clients)

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


def read_ca_file(ca_file: Path | None) -> bytes | None:
    """Read the certificates to trust besides the usual ones."""
    if ca_file is None:
        return None
    certificates = read_file(ca_file, "The CA file")
    if b"-----BEGIN CERTIFICATE-----" not in certificates:
        raise ProviderSetupError(f"The CA file {ca_file} holds no certificate in PEM form.")
    return certificates


def _client(
    settings: HttpProviderSettings, certificates: bytes | None, pin: tuple[str, str] | None
) -> Client:
    builder = (
        ClientBuilder()
        .http2(enable=True)
        .connect_timeout(timedelta(seconds=settings.connect_timeout))
        .timeout(timedelta(seconds=settings.timeout))
        .follow_redirects(enable=False)
        .error_for_status(enable=False)
        .http2_keep_alive_interval(timedelta(seconds=30))
        .http2_keep_alive_timeout(timedelta(seconds=10))
    )
    if certificates:
        builder = builder.add_root_certificate_pem(certificates)
    if pin:
        host, address = pin
        # A proxy would resolve the name again by itself, so none is used; port 0 means the URL's own.
        builder = builder.resolve(host, address, 0).no_proxy()
        # A small answer from outside must not unfold into a large one.
        builder = builder.gzip(False).brotli(False).zstd(False).deflate(False)
    return builder.build()
