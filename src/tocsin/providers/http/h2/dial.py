"""Opens connections: TCP or a tunnel through a proxy, TLS with ALPN, and the peer's first SETTINGS."""

import asyncio
import base64
import ssl
from collections.abc import Callable, Mapping
from typing import NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit
from urllib.request import getproxies_environment, proxy_bypass_environment  # type: ignore[attr-defined]

from tocsin.domain.errors import ProviderSetupError
from tocsin.providers.http.h2.connection import Connection
from tocsin.providers.http.h2.errors import ConnectFailedError
from tocsin.providers.http.h2.happy_eyeballs import open_socket

SHUTDOWN_SECONDS = 2.0
"""How long a peer has to say goodbye to TLS."""

MOST_PROXY_BYTES = 16_384
_PORTS = {"http": 80, "https": 443}


class Proxy(NamedTuple):
    """A proxy of the environment; `authorization` is the header that it asks for, if any."""

    host: str
    port: int
    authorization: str

    def __repr__(self) -> str:
        """Show the address, not the credentials."""
        return f"Proxy({self.host}:{self.port})"


class Origin(NamedTuple):
    """Where to connect to; without `secure` HTTP/2 is spoken in clear text, as only a sandbox does.

    With an `address` nobody resolves the host again: the connection goes there.
    """

    host: str
    port: int
    secure: bool
    authority: str
    base_path: str
    address: str = ""


def parse_origin(base_url: str) -> Origin:
    """Parse the address of a provider; raise ProviderSetupError for what is none."""
    # The address is not quoted: it may have a password in it.
    try:
        parts = urlsplit(base_url)
        host, port = parts.hostname or "", parts.port
        ascii_host = host if ":" in host else host.encode("idna").decode()
    except ValueError as error:
        raise ProviderSetupError(f"The base URL is no address: {error}") from error
    if parts.scheme not in _PORTS or not host or parts.username is not None:
        raise ProviderSetupError("The base URL must be an address such as https://example.com.")
    name = f"[{ascii_host}]" if ":" in ascii_host else ascii_host
    usual = _PORTS[parts.scheme]
    authority = name if port in {None, usual} else f"{name}:{port}"
    return Origin(ascii_host, port or usual, parts.scheme == "https", authority, parts.path.rstrip("/"))


def proxy_for(origin: Origin) -> Proxy | None:
    """Return the proxy that `HTTPS_PROXY` or `ALL_PROXY` names unless `NO_PROXY` exempts the origin."""
    proxies: Mapping[str, str] = getproxies_environment()
    address = (proxies.get("https") or proxies.get("all")) if origin.secure else None
    if not address or proxy_bypass_environment(f"{origin.host}:{origin.port}", {"no": proxies.get("no", "")}):
        return None
    try:
        parts = urlsplit(address if "//" in address else f"//{address}", scheme="http")
        port = parts.port
    except ValueError as error:
        raise ProviderSetupError("The proxy of HTTPS_PROXY has no address that can be parsed.") from error
    if parts.scheme != "http" or not parts.hostname:
        raise ProviderSetupError("The proxy of HTTPS_PROXY must have an address such as http://proxy:3128.")
    return Proxy(parts.hostname, port or 80, _authorization(parts))


def _authorization(parts: SplitResult) -> str:
    if parts.username is None:
        return ""
    pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return f"Basic {base64.b64encode(pair.encode()).decode()}"


def tls_context(certificates: bytes | None, *protocols: str) -> ssl.SSLContext:
    """Build a context that trusts the store of the system, and the given certificates besides it.

    `protocols` are offered by ALPN, HTTP/2 alone unless given.
    """
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(protocols or ("h2",))
    if certificates:
        try:
            context.load_verify_locations(cadata=certificates.decode())
        except (ssl.SSLError, ValueError) as error:
            raise ProviderSetupError(
                f"The CA file holds a certificate that cannot be read: {error}"
            ) from error
    return context


async def dial(
    origin: Origin, tls: ssl.SSLContext | None, proxy: Proxy | None, build: Callable[[], Connection]
) -> Connection:
    """Open a connection and wait until the peer has said what it allows; raise ConnectFailedError."""
    loop = asyncio.get_running_loop()
    try:
        if proxy is not None:
            connection = await _tunnel(loop, origin, build, tls, proxy)
        elif tls is not None:
            _, connection = await loop.create_connection(
                build,
                sock=await open_socket(origin.address or origin.host, origin.port),
                ssl=tls,
                server_hostname=origin.host,
                ssl_shutdown_timeout=SHUTDOWN_SECONDS,
            )
        else:
            opened = await open_socket(origin.host, origin.port)
            _, connection = await loop.create_connection(build, sock=opened)
    except (OSError, UnicodeError, asyncio.IncompleteReadError) as error:
        raise ConnectFailedError(type(error).__name__) from error
    try:
        if tls is not None:
            connection.check_protocol()
        await connection.ready
    except BaseException as error:
        connection.close(ConnectFailedError("not opened"))
        if isinstance(error, ConnectFailedError | asyncio.CancelledError):
            raise
        raise ConnectFailedError(str(error)) from error
    return connection


async def _tunnel(
    loop: asyncio.AbstractEventLoop,
    origin: Origin,
    build: Callable[[], Connection],
    tls: ssl.SSLContext | None,
    proxy: Proxy,
) -> Connection:
    """Ask a proxy for a tunnel by CONNECT, and speak TLS with the origin through it."""
    target = f"[{origin.host}]:{origin.port}" if ":" in origin.host else f"{origin.host}:{origin.port}"
    lines = [f"CONNECT {target} HTTP/1.1", f"Host: {target}"]
    if proxy.authorization:
        lines.append(f"Proxy-Authorization: {proxy.authorization}")
    answered: asyncio.Future[bytes] = loop.create_future()
    opened = await open_socket(proxy.host, proxy.port)
    transport, _ = await loop.create_connection(lambda: _ProxyAnswer(answered), sock=opened)
    try:
        transport.write(("\r\n".join(lines) + "\r\n\r\n").encode())
        _check_tunnel(await answered)
        connection = build()
        secured = await loop.start_tls(
            transport,
            connection,
            tls or ssl.create_default_context(),
            server_hostname=origin.host,
            ssl_shutdown_timeout=SHUTDOWN_SECONDS,
        )
    except BaseException:
        transport.abort()
        raise
    if secured is None:
        raise ConnectFailedError("the tunnel was closed")
    if connection.retired:
        # The peer's first frames may come with the end of the handshake; by the last it left.
        secured.abort()
        raise ConnectFailedError("the peer left at once")
    connection.connection_made(secured)
    return connection


def _check_tunnel(answer: bytes) -> None:
    match answer.split(None, 2):
        case [version, b"200", *_] if version.startswith(b"HTTP/1."):
            pass
        case [_, status, *_]:
            raise ConnectFailedError(f"the proxy answered {status[:3].decode('latin-1')}")
        case _:
            raise ConnectFailedError("the proxy did not answer as one")


class _ProxyAnswer(asyncio.Protocol):
    """Reads the head of a proxy's answer to CONNECT; the origin sends nothing before we do."""

    def __init__(self, answered: asyncio.Future[bytes]) -> None:
        self._answered = answered
        self._head = b""

    def data_received(self, data: bytes) -> None:
        self._head += data
        if self._answered.done():
            return
        if b"\r\n\r\n" in self._head:
            self._answered.set_result(self._head)
        elif len(self._head) > MOST_PROXY_BYTES:
            self._answered.set_exception(ConnectFailedError("the proxy answered too much"))

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._answered.done():
            self._answered.set_exception(exc or ConnectFailedError("the proxy closed the connection"))
