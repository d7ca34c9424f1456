"""The client with the HTTP/2 servers of others: nghttp2's, Node's, and that of the sandbox."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
import trustme

from tests.javascript.packages import program
from tests.providers.wire import LOOPBACK
from tests.waiting import found
from tocsin.providers.http.h2.client import Http2Client
from tocsin.providers.http.h2.errors import ConnectionLostError, RequestTimeoutError, StreamResetError
from tocsin.providers.http.h2.exchange import Exchange
from tocsin.providers.settings import HttpProviderSettings
from tocsin.sandbox import Sandbox, SandboxSettings

NODE_SERVER = Path(__file__).with_name("node_server.mjs")


class Certificate(NamedTuple):
    ca_file: Path
    pem: Path


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    folder = tmp_path_factory.mktemp("certificates")
    authority = trustme.CA()
    authority.cert_pem.write_to_path(folder / "ca.pem")
    authority.issue_cert(LOOPBACK).private_key_and_cert_chain_pem.write_to_path(folder / "server.pem")
    return Certificate(folder / "ca.pem", folder / "server.pem")


@asynccontextmanager
async def running(*command: str | Path) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    try:
        yield process
    finally:
        process.kill()
        await process.communicate()


@asynccontextmanager
async def calling(url: str, ca_file: Path | None = None, **settings: float) -> AsyncIterator[Http2Client]:
    client = Http2Client(url, HttpProviderSettings(ca_file=ca_file, max_concurrency=300, **settings))
    try:
        yield client
    finally:
        await client.aclose()


def post(client: Http2Client, path: str, body: bytes) -> Exchange:
    head = client.head({"authorization": "Bearer " + "t" * 900, "content-type": "application/json"})
    return client.post(head, client.path(path), body)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        port: int = probe.getsockname()[1]
        return port


async def accepts(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection(LOOPBACK, port)
    except OSError:
        return False
    writer.close()
    return True


@pytest.mark.parametrize("secure", [True, False])
async def test_nghttpd_sends_every_body_back(
    certificate: Certificate, tmp_path: Path, *, secure: bool
) -> None:
    nghttpd = program("nghttpd", "nghttp2-server")
    port = free_port()
    pair = (certificate.pem, certificate.pem) if secure else ("--no-tls",)
    options = ("--echo-upload", "-d", tmp_path, "-a", LOOPBACK, "-m", "7", "-w", "10", "--trailer", "x: y")
    url = f"{'https' if secure else 'http'}://{LOOPBACK}:{port}"
    async with (
        running(nghttpd, *options, str(port), *pair),
        calling(url, certificate.ca_file) as client,
    ):
        await found(lambda: accepts(port))
        bodies = [os.urandom(size) for size in (1, 100, 1_023, 1_024, 5_000, 70_000, 200_000)] * 10
        replies = await asyncio.gather(*(post(client, "/echo", body) for body in bodies))

    assert [reply.body for reply in replies] == bodies
    assert {reply.status for reply in replies} == {200}


@pytest.fixture
async def node(certificate: Certificate) -> AsyncIterator[str]:
    async with running(program("node", "nodejs"), NODE_SERVER, certificate.pem) as process:
        assert process.stdout is not None
        port = int(await process.stdout.readline())
        yield f"https://{LOOPBACK}:{port}"


async def test_node_sends_every_body_back(certificate: Certificate, node: str) -> None:
    async with calling(node, certificate.ca_file) as client:
        paths = ("/echo", "/interim", "/trailers", "/ping")
        bodies = [os.urandom(size) for size in (1, 100, 2_999, 3_001, 20_000, 90_000)]
        asked = [(path, body) for path in paths for body in bodies for _ in range(4)]
        replies = await asyncio.gather(*(post(client, *each) for each in asked))

        assert [(reply.headers["x-path"], reply.body) for reply in replies] == asked
        assert {reply.headers["authorization"] for reply in replies} == {"Bearer " + "t" * 900}
        assert client.connections <= 3


async def test_node_leaves_gracefully_while_requests_go_on(certificate: Certificate, node: str) -> None:
    async with calling(node, certificate.ca_file) as client:
        paths = ["/echo"] * 20 + ["/goaway"] + ["/echo"] * 40
        replies = await asyncio.gather(*(post(client, path, b"x") for path in paths))

    assert {reply.status for reply in replies} == {200}


async def test_node_fails_requests_in_its_ways(certificate: Certificate, node: str) -> None:
    async with calling(node, certificate.ca_file, timeout=2.0) as client:
        with pytest.raises(StreamResetError, match="INTERNAL_ERROR") as reset:
            await post(client, "/reset", b"x")
        with pytest.raises(StreamResetError, match="REFUSED_STREAM") as refused:
            await post(client, "/refuse", b"x")
        with pytest.raises(ConnectionLostError) as lost:
            await post(client, "/leave", b"x")
        with pytest.raises(RequestTimeoutError) as late:
            await post(client, "/hang", b"x")
        assert (await post(client, "/echo", b"x")).body == b"x"

    failures = (reset, refused, lost, late)
    assert [failed.value.may_be_processed for failed in failures] == [True, False, True, True]


@pytest.mark.parametrize("secure", [True, False])
async def test_the_sandbox_answers_on_both_its_listeners(tmp_path: Path, *, secure: bool) -> None:
    async with Sandbox(SandboxSettings(folder=tmp_path)) as sandbox:
        url = sandbox.https_url if secure else sandbox.http_url
        async with calling(url, sandbox.ca_file) as client:
            path = "/v1/projects/sandbox/messages:send"
            replies = await asyncio.gather(*(post(client, path, b"{}") for _ in range(1_000)))

    assert {reply.status for reply in replies} == {401}
    assert b"UNAUTHENTICATED" in replies[0].body
