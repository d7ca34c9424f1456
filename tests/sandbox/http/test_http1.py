"""The HTTP/1.1 side of the sandbox, with clients that others wrote and with bytes by hand."""

import asyncio
import contextlib
import http.client
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.sandbox.http.raw_client import EVENT, connect
from tests.sandbox.http.test_http2 import tls_of
from tests.waiting import until
from tocsin.sandbox import Cut, Hang, Latency, Refuse, Sandbox, SandboxSettings
from tocsin.sandbox.http import bodies, http1_connection
from tocsin.sandbox.http.bodies import BodyMemory, BodyTooLargeError
from tocsin.sandbox.http.chunks import ChunkedBody
from tocsin.sandbox.http.request_heads import BadHeadError

GET = b"GET /_sandbox/stats HTTP/1.1\r\nHost: localhost\r\n\r\n"
EVENT_HEAD = (
    b"POST /webhook/ada HTTP/1.1\r\nhost: localhost\r\nwebhook-id: m1\r\nwebhook-timestamp: 1\r\n"
    b"webhook-signature: v1,x\r\n"
)
POST = EVENT_HEAD + b"content-length: %d\r\n\r\n" % len(EVENT) + EVENT
CHUNKED = EVENT_HEAD + b"transfer-encoding: chunked\r\n\r\n"


class Raw:
    """A connection whose bytes are written by hand."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    def send(self, data: bytes) -> None:
        self._writer.write(data)

    async def status(self) -> int:
        """Read one answer and return its status."""
        head = await asyncio.wait_for(self._reader.readuntil(b"\r\n\r\n"), 10)
        lines = head.decode().split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines[1:])}
        self.headers = headers
        self.body = await self._reader.readexactly(int(headers.get("content-length", 0)))
        return int(lines[0].split(" ")[1])

    async def rest(self) -> bytes:
        """Read until the sandbox closes the connection."""
        return await asyncio.wait_for(self._reader.read(), 10)

    def close(self) -> None:
        self._writer.close()


@pytest.fixture
async def raw(sandbox: Sandbox) -> AsyncIterator[Raw]:
    opened = Raw(*await connect(sandbox))
    yield opened
    opened.close()


async def test_a_connection_takes_one_request_after_another(sandbox: Sandbox, raw: Raw) -> None:
    for _ in range(3):
        raw.send(POST)
        assert await raw.status() == 204
        raw.send(GET)
        assert await raw.status() == 200
    assert sandbox.stats("webhook").protocols == {"1.1": 3}


async def test_requests_sent_ahead_are_answered_in_order(sandbox: Sandbox, raw: Raw) -> None:
    sandbox.faults_of("webhook").latency(Latency(0.02))
    raw.send(POST + GET + POST + b"\r\n" + GET + GET[:20])
    raw.send(GET[20:])

    assert [await raw.status() for _ in range(5)] == [204, 200, 204, 200, 200]


async def test_a_request_may_come_byte_by_byte(sandbox: Sandbox, raw: Raw) -> None:
    for sent in (POST, CHUNKED + b'3\r\n{"t\r\nA;a=b\r\nype":"t"} \r\n0\r\na: b\r\n\r\n'):
        for at in range(len(sent)):
            raw.send(sent[at : at + 1])
            await asyncio.sleep(0)
        assert await raw.status() == 204
    assert sandbox.stats("webhook").delivered == 2


async def test_a_client_that_waits_for_100_is_asked_to_go_on(raw: Raw) -> None:
    raw.send(EVENT_HEAD + b"expect: 100-continue\r\ncontent-length: %d\r\n\r\n" % len(EVENT))
    assert await raw.status() == 100

    raw.send(EVENT)

    assert await raw.status() == 204


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"nonsense\r\n\r\n", 400),
        (b"GET /\r\n\r\n", 400),
        (b"GET / HTTP/3.0\r\nhost: a\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (b"GET  / HTTP/1.1\r\nhost: a\r\n\r\n", 400),
        (b"GET path HTTP/1.1\r\nhost: a\r\n\r\n", 400),
        (b"CONNECT a:1 HTTP/1.1\r\nhost: a:1\r\n\r\n", 400),
        (b"G\x00T / HTTP/1.1\r\nhost: a\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nhost: a\r\nno colon\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nhost : a\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nhost: a\r\n folded: b\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nhost: a\nx: b\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nhost: a\x00\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: -1\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n", 400),
        (b"POST / HTTP/1.0\r\ntransfer-encoding: chunked\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: gzip, chunked\r\n\r\n", 501),
        (b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 999999999999\r\n\r\n", 413),
        (b"GET / HTTP/1.1\r\nx: " + b"a" * 70_000, 431),
        (CHUNKED + b"-1\r\n", 400),
        (CHUNKED + b"1\r\nxx\r\n", 400),
        (CHUNKED + b"1" * 300, 400),
        (CHUNKED + b"fffffff\r\n", 413),
        (CHUNKED + b"0\r\nno colon\r\n", 400),
        (CHUNKED + b"0\r\n" + b"a: b\r\n" * 3_000, 400),
    ],
)
async def test_a_request_that_breaks_a_rule_is_refused_and_its_connection_closed(
    sandbox: Sandbox, raw: Raw, sent: bytes, status: int
) -> None:
    raw.send(sent + GET)

    assert await raw.status() == status
    assert raw.headers["connection"] == "close"
    assert await raw.rest() == b""
    assert sandbox.stats("webhook").in_flight == 0


@pytest.mark.parametrize(
    "sent",
    [b"GET /_sandbox/stats HTTP/1.0\r\n\r\n", GET.replace(b"\r\n\r\n", b"\r\nConnection: Close\r\n\r\n")],
    ids=["HTTP/1.0", "connection: close"],
)
async def test_a_connection_of_one_request_is_closed_after_it(raw: Raw, sent: bytes) -> None:
    raw.send(sent)

    assert await raw.status() == 200
    assert await raw.rest() == b""


async def test_a_proxy_form_is_understood_and_head_has_no_body(raw: Raw) -> None:
    raw.send(b"GET http://sandbox.localhost/_sandbox/service_accounts/p HTTP/1.1\r\nhost: other\r\n\r\n")
    assert await raw.status() == 200
    assert b"http://sandbox.localhost/token" in raw.body

    raw.send(b"HEAD /nothing HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
    assert (await raw.rest()).endswith(b"\r\n\r\n")


async def test_an_answer_that_quotes_a_line_break_cannot_add_a_header(sandbox: Sandbox, raw: Raw) -> None:
    sandbox.faults_of("webhook").script("a\r\nset-cookie: x", Refuse("HTTP_302"), repeat=True)

    raw.send(POST.replace(b"/webhook/ada", b"/webhook/a%0d%0aset-cookie:%20x"))

    assert await raw.status() == 500
    assert "set-cookie" not in raw.headers


async def test_a_cut_answer_ends_the_connection(sandbox: Sandbox, raw: Raw) -> None:
    sandbox.faults_of("webhook").script("ada", Cut())
    raw.send(POST)

    cut = await raw.rest()

    assert b"content-length: 64\r\n" in cut
    assert cut.endswith(b"\r\n\r\n{")


async def test_a_client_that_leaves_is_no_longer_in_flight(sandbox: Sandbox) -> None:
    sandbox.faults_of("webhook").script("ada", Hang())
    raw = Raw(*await connect(sandbox))
    raw.send(POST)
    await until(lambda: sandbox.stats("webhook").in_flight == 1)

    raw.close()

    await until(lambda: sandbox.stats("webhook").in_flight == 0)


async def test_what_is_sent_ahead_without_end_is_not_read(sandbox: Sandbox) -> None:
    """A client that sends requests and reads no answer is held up by its own socket."""
    _, writer = await connect(sandbox)
    sandbox.faults_of("webhook").script("ada", Hang())
    writer.write(POST)
    await until(lambda: sandbox.stats("webhook").in_flight == 1)
    ahead = 64 * 1_024 * 1_024

    writer.write(GET * (ahead // len(GET)))
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(writer.drain(), 0.5)

    assert writer.transport.get_write_buffer_size() > ahead // 2
    writer.transport.abort()


async def test_a_request_that_does_not_come_to_an_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http1_connection, "HALF_REQUEST_SECONDS", 0.0)
    async with Sandbox() as sandbox:
        for sent in (GET[:20], POST[:-1]):
            raw = Raw(*await connect(sandbox))
            raw.send(sent)
            assert await raw.rest() == b""
            raw.close()


async def test_closing_answers_what_is_under_way() -> None:
    async with Sandbox(SandboxSettings(latency=Latency(0.2))) as sandbox:
        sandbox.faults_of("webhook").script("hangs", Hang())
        busy, idle, hanging = [Raw(*await connect(sandbox)) for _ in range(3)]
        busy.send(POST)
        idle.send(GET)
        hanging.send(POST.replace(b"/ada", b"/hangs"))
        assert await idle.status() == 200
        await until(lambda: sandbox.stats("webhook").requests == 2)

        await asyncio.wait_for(sandbox.__aexit__(), 3)

        assert await busy.status() == 204
        assert busy.headers["connection"] == "close"
        assert [await each.rest() for each in (busy, idle, hanging)] == [b"", b"", b""]
        for each in (busy, idle, hanging):
            each.close()


async def test_clients_of_other_people_are_answered(sandbox: Sandbox) -> None:
    def standard_library() -> int:
        address = urlsplit(sandbox.https_url)
        assert address.hostname
        connection = http.client.HTTPSConnection(address.hostname, address.port, context=tls_of(sandbox))
        connection.request("GET", "/_sandbox/stats")
        with connection.getresponse() as response:
            response.read()
        connection.close()
        return response.status

    assert await asyncio.to_thread(standard_library) == 200
    async with httpx.AsyncClient(verify=tls_of(sandbox), base_url=sandbox.https_url) as client:
        found = await client.get("/")
        parts = [EVENT[:4], EVENT[4:]]

        async def in_parts() -> AsyncIterator[bytes]:
            for part in parts:
                yield part

        fields = {"webhook-id": "m1", "webhook-timestamp": "1", "webhook-signature": "v1,x"}
        sent = await client.post("/webhook/ada", content=in_parts(), headers=fields)
    assert (found.status_code, found.http_version) == (200, "HTTP/1.1")
    assert "content-security-policy" in found.headers
    assert sent.status_code == 204


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.lists(st.binary(min_size=1, max_size=40), max_size=6), st.data())
def test_chunks_are_read_however_they_are_split(chunks: list[bytes], data: st.DataObject) -> None:
    sent = b"".join(b"%X\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\n\r\nnext"
    cuts = sorted(data.draw(st.lists(st.integers(0, len(sent)), max_size=8)))
    memory, buffer, body = BodyMemory(), bytearray(), None
    reading = ChunkedBody(memory)
    for start, end in zip([0, *cuts], [*cuts, len(sent)], strict=True):
        buffer += sent[start:end]
        body = body if body is not None else reading.take(buffer)

    assert body == b"".join(chunks)
    assert buffer == b"next"
    assert memory.left == bodies.MOST_PARTIAL_BYTES


@given(st.binary(max_size=200))
def test_any_bytes_are_chunks_or_refused(sent: bytes) -> None:
    memory = BodyMemory()
    reading = ChunkedBody(memory)
    with contextlib.suppress(BadHeadError, BodyTooLargeError):
        reading.take(bytearray(sent))
    reading.release()

    assert memory.left == bodies.MOST_PARTIAL_BYTES
