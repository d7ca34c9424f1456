"""How connections are opened: TLS and its certificates, ALPN, proxies of the environment."""

import asyncio
import base64
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Self

import pytest
import trustme
from hyperframe.frame import GoAwayFrame, SettingsFrame

from tests.providers.http.h2.raw_peer import post
from tests.providers.http.http2_peer import CannedAnswer, Http2Peer
from tests.providers.wire import LOOPBACK
from tocsin.domain.errors import ProviderSetupError
from tocsin.providers.http.h2.client import Http2Client
from tocsin.providers.http.h2.dial import Origin, Proxy, parse_origin, proxy_for
from tocsin.providers.http.h2.errors import ConnectFailedError, RequestTimeoutError
from tocsin.providers.http.h2.happy_eyeballs import NEXT_ADDRESS_SECONDS, Address, connect_first, in_turns
from tocsin.providers.settings import HttpProviderSettings


class Certificates:
    """An authority, and the files of a server in the form that the peers read."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ca_file = folder / "ca.pem"
        authority = trustme.CA()
        authority.cert_pem.write_to_path(self.ca_file)
        self.issue(authority, LOOPBACK)
        self.authority = authority

    def issue(self, authority: trustme.CA, name: str) -> None:
        issued = authority.issue_cert(name)
        issued.private_key_pem.write_to_path(self.folder / "server.key")
        issued.cert_chain_pems[0].write_to_path(self.folder / "server.pem")


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    return Certificates(tmp_path)


@pytest.fixture
async def peer(certificates: Certificates) -> AsyncIterator[Http2Peer]:
    async with Http2Peer(certificates.folder, lambda body: CannedAnswer(body=body)) as opened:
        yield opened


async def call(url: str, ca_file: Path | None, **settings: float) -> bytes:
    client = Http2Client(url, HttpProviderSettings(ca_file=ca_file, **settings))  # type: ignore[arg-type]
    try:
        return (await post(client, b"hello")).body
    finally:
        await client.aclose()


async def test_a_certificate_of_the_ca_file_is_trusted(certificates: Certificates, peer: Http2Peer) -> None:
    assert await call(peer.url, certificates.ca_file) == b"hello"


async def test_a_certificate_that_nobody_vouches_for_is_no_connection(peer: Http2Peer) -> None:
    with pytest.raises(ConnectFailedError, match="SSLCertVerificationError") as failed:
        await call(peer.url, None)

    assert not failed.value.may_be_processed


async def test_a_certificate_of_another_host_is_no_connection(certificates: Certificates) -> None:
    certificates.issue(certificates.authority, "push.example.com")
    async with Http2Peer(certificates.folder, lambda body: CannedAnswer(body=body)) as peer:
        with pytest.raises(ConnectFailedError, match="SSLCertVerificationError"):
            await call(peer.url, certificates.ca_file)


async def test_a_host_without_http2_is_no_connection(certificates: Certificates) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificates.folder / "server.pem", certificates.folder / "server.key")
    server = await asyncio.start_server(lambda _, writer: writer.close(), LOOPBACK, 0, ssl=context)
    port = server.sockets[0].getsockname()[1]

    with pytest.raises(ConnectFailedError):
        await call(f"https://{LOOPBACK}:{port}", certificates.ca_file)

    server.close()


async def test_a_host_that_does_not_shake_hands_is_a_time_out() -> None:
    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    server = await asyncio.start_server(listen, LOOPBACK, 0)
    port = server.sockets[0].getsockname()[1]

    with pytest.raises(RequestTimeoutError) as failed:
        await call(f"https://{LOOPBACK}:{port}", None, connect_timeout=0.2)

    assert not failed.value.may_be_processed
    server.close()


@pytest.mark.parametrize("host", ["nobody.invalid", "a" * 64 + ".invalid"])
async def test_a_name_that_nobody_has_is_no_connection(host: str) -> None:
    with pytest.raises((ConnectFailedError, ProviderSetupError)):
        await call(f"https://{host}", None)


async def test_a_ca_file_is_read_once(certificates: Certificates, peer: Http2Peer) -> None:
    client = Http2Client(peer.url, HttpProviderSettings(ca_file=certificates.ca_file))
    certificates.ca_file.unlink()

    assert (await post(client, b"hello")).body == b"hello"

    await client.aclose()


async def test_small_requests_do_not_wait_for_the_acknowledgement_of_earlier_ones(
    certificates: Certificates, peer: Http2Peer
) -> None:
    client = Http2Client(peer.url, HttpProviderSettings(ca_file=certificates.ca_file))
    await post(client, b"hello")
    (connection,) = client._pool._connections
    transport = connection.writer.transport
    assert transport is not None

    opened = transport.get_extra_info("socket")

    assert opened.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    await client.aclose()


def test_a_ca_file_that_cannot_be_read_stops_the_start(tmp_path: Path) -> None:
    broken = tmp_path / "ca.pem"
    broken.write_text("-----BEGIN CERTIFICATE-----\nnot one\n-----END CERTIFICATE-----\n")

    with pytest.raises(ProviderSetupError, match="CA file"):
        Http2Client("https://example.com", HttpProviderSettings(ca_file=broken))


def listening(backlog: int) -> tuple[socket.socket, Address]:
    server = socket.socket()
    server.bind((LOOPBACK, 0))
    server.listen(backlog)
    return server, Address(socket.AF_INET, server.getsockname())


async def test_an_address_that_does_not_answer_costs_a_moment() -> None:
    silent, never = listening(0)
    good, answers = listening(5)
    loop = asyncio.get_running_loop()
    # Linux drops what a full queue has no room for.
    fillers = [socket.socket() for _ in range(2)]
    for filler in fillers:
        filler.setblocking(False)
        filler.connect_ex(never.place)
    began = loop.time()

    opened = await connect_first([never, answers])

    assert opened.getpeername() == answers.place
    assert NEXT_ADDRESS_SECONDS * 0.9 <= loop.time() - began < 5.0
    for each in (opened, silent, good, *fillers):
        each.close()


async def test_an_address_that_refuses_is_followed_by_the_next_and_none_is_an_error() -> None:
    good, answers = listening(5)
    gone, refuses = listening(5)
    gone.close()

    opened = await connect_first([refuses, answers])
    assert opened.getpeername() == answers.place
    with pytest.raises(ConnectionRefusedError):
        await connect_first([refuses, refuses])
    with pytest.raises(OSError, match="no address"):
        await connect_first([])

    opened.close()
    good.close()


def test_families_of_addresses_take_turns() -> None:
    six = [Address(socket.AF_INET6, (f"::{number}", 1)) for number in range(3)]
    four = [Address(socket.AF_INET, ("127.0.0.1", 1))]

    assert in_turns([*six, *four]) == [six[0], four[0], six[1], six[2]]


class ConnectProxy:
    """A proxy that opens tunnels, or answers something else."""

    def __init__(self, answer: bytes = b"HTTP/1.1 200 Connection established\r\n\r\n") -> None:
        self._answer = answer
        self.heads: list[bytes] = []
        self._serving: list[asyncio.Task[None] | None] = []

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, LOOPBACK, 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        await asyncio.gather(*(serving for serving in self._serving if serving))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._serving.append(asyncio.current_task())
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            self.heads.append(head)
            writer.write(self._answer)
            if b" 200 " in self._answer:
                await self._carry(head, reader, writer)
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def _carry(self, head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host, _, port = head.split()[1].decode().rpartition(":")
        from_peer, to_peer = await asyncio.open_connection(host, int(port))
        pumps = [
            asyncio.create_task(self._pump(reader, to_peer)),
            asyncio.create_task(self._pump(from_peer, writer)),
        ]
        await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        to_peer.close()
        writer.close()
        await asyncio.wait(pumps)
        with contextlib.suppress(OSError):
            await to_peer.wait_closed()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while part := await reader.read(65_536):
                writer.write(part)


async def test_a_proxy_of_the_environment_is_asked_for_a_tunnel(
    certificates: Certificates, peer: Http2Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with ConnectProxy() as proxy:
        monkeypatch.setenv("HTTPS_PROXY", f"http://us%20er:p%40ss@{LOOPBACK}:{proxy.port}")
        monkeypatch.setenv("NO_PROXY", "example.com")

        assert await call(peer.url, certificates.ca_file) == b"hello"

    (head,) = proxy.heads
    target = peer.url.removeprefix("https://")
    credentials = base64.b64encode(b"us er:p@ss").decode()
    assert head.decode().splitlines()[:3] == [
        f"CONNECT {target} HTTP/1.1",
        f"Host: {target}",
        f"Proxy-Authorization: Basic {credentials}",
    ]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", "the proxy answered 407"),
        (b"SSH-2.0-OpenSSH\r\n\r\n", "the proxy did not answer as one"),
        (b"", "the proxy closed the connection"),
        (b"x" * 20_000, "the proxy answered too much"),
    ],
)
async def test_a_proxy_that_opens_no_tunnel_is_no_connection(
    monkeypatch: pytest.MonkeyPatch, answer: bytes, expected: str
) -> None:
    async with ConnectProxy(answer) as proxy:
        monkeypatch.setenv("https_proxy", f"http://user:s3cret@{LOOPBACK}:{proxy.port}")

        with pytest.raises(ConnectFailedError, match=expected) as failed:
            await call("https://push.example.com", None)

    assert not failed.value.may_be_processed
    assert "s3cret" not in repr(failed.value)


async def test_a_peer_that_leaves_while_the_tunnel_is_secured_is_hung_up_on(
    certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With TLS 1.2 its first frames come with the end of the handshake."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificates.folder / "server.pem", certificates.folder / "server.key")
    context.set_alpn_protocols(["h2"])
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    gone = asyncio.Event()

    async def leave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(SettingsFrame(0).serialize() + GoAwayFrame(0, last_stream_id=0).serialize())
        with contextlib.suppress(ConnectionError):
            await reader.read()
        gone.set()
        writer.close()

    server = await asyncio.start_server(leave, LOOPBACK, 0, ssl=context)
    url = f"https://{LOOPBACK}:{server.sockets[0].getsockname()[1]}"
    # The proxy ends when its tunnels do.
    async with asyncio.timeout(10), server, ConnectProxy() as proxy:
        monkeypatch.setenv("HTTPS_PROXY", f"http://{LOOPBACK}:{proxy.port}")
        monkeypatch.setenv("NO_PROXY", "example.com")
        with pytest.raises(ConnectFailedError, match="left at once"):
            await call(url, certificates.ca_file)

    await gone.wait()


def test_proxies_are_those_of_the_environment_unless_exempt(monkeypatch: pytest.MonkeyPatch) -> None:
    origin = parse_origin("https://push.example.com")
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy", "NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    assert proxy_for(origin) is None

    monkeypatch.setenv("ALL_PROXY", "proxy.example.com:3128")
    assert proxy_for(origin) == Proxy("proxy.example.com", 3128, "")
    assert proxy_for(parse_origin("http://127.0.0.1:8481")) is None

    monkeypatch.setenv("HTTPS_PROXY", "http://user:s3cret@other.example.com")
    proxy = proxy_for(origin)
    assert proxy is not None
    assert (proxy.host, proxy.port) == ("other.example.com", 80)
    assert "s3cret" not in repr(proxy)

    monkeypatch.setenv("NO_PROXY", "example.com,127.0.0.1")
    assert proxy_for(origin) is None

    monkeypatch.setenv("NO_PROXY", "")
    for wrong in ("socks5://proxy:1080", "http://proxy:port", "http://"):
        monkeypatch.setenv("HTTPS_PROXY", wrong)
        with pytest.raises(ProviderSetupError, match="HTTPS_PROXY"):
            proxy_for(origin)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://example.com", Origin("example.com", 443, True, "example.com", "")),
        ("https://example.com:443/", Origin("example.com", 443, True, "example.com", "")),
        ("https://example.com:2197/base/", Origin("example.com", 2197, True, "example.com:2197", "/base")),
        ("http://[::1]:8481", Origin("::1", 8481, False, "[::1]:8481", "")),
        ("https://bücher.example", Origin("xn--bcher-kva.example", 443, True, "xn--bcher-kva.example", "")),
    ],
)
def test_the_address_of_a_provider_is_parsed(url: str, expected: Origin) -> None:
    assert parse_origin(url) == expected


@pytest.mark.parametrize(
    "url",
    [
        "ftp://example.com",
        "https://",
        "https://a:b",
        "https://u:p@example.com",
        "https://[::1",
        "https://a..b",
    ],
)
def test_what_is_no_address_stops_the_start(url: str) -> None:
    with pytest.raises(ProviderSetupError):
        parse_origin(url)
