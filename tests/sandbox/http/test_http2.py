"""The HTTP/2 side of the sandbox, with clients that others wrote and with frames by hand."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import h2.config
import h2.connection
import h2.events
import h2.settings
import hpack
import httpx
import pytest
from hyperframe.frame import (
    ContinuationFrame,
    DataFrame,
    GoAwayFrame,
    HeadersFrame,
    PingFrame,
    RstStreamFrame,
    WindowUpdateFrame,
)

from tests.sandbox.http.raw_client import (
    EVENT,
    WEBHOOK,
    Answer,
    answer,
    connect,
    event,
    event_head,
    get,
    linked,
    request_fields,
)
from tests.waiting import until
from tocsin.http2 import keep_alive
from tocsin.http2.frames import PREFACE, Setting, settings_frame
from tocsin.sandbox import Cut, Hang, Latency, Sandbox, SandboxSettings

PAGE = "/_sandbox/page/style.css"
"""An answer of several kilobytes."""


class H2Client:
    """A client of the package h2, over TLS or in clear text."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self.state = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True))
        self._answers: dict[int, Answer] = {}
        self._ended: set[int] = set()

    async def begin(self, settings: dict[h2.settings.SettingCodes | int, int] | None = None) -> None:
        self.state.initiate_connection()
        if settings:
            self.state.update_settings(settings)
        await self.flush()

    async def flush(self) -> None:
        self._writer.write(self.state.data_to_send())
        await self._writer.drain()

    async def send(self, fields: list[tuple[str, str]], body: bytes = b"", *, trailers: bool = False) -> int:
        stream_id = self.state.get_next_available_stream_id()
        self.state.send_headers(stream_id, fields, end_stream=not body)
        while body:
            room = min(self.state.local_flow_control_window(stream_id), self.state.max_outbound_frame_size)
            if not room:
                await self.read()
                continue
            part, body = body[:room], body[room:]
            self.state.send_data(stream_id, part, end_stream=not body and not trailers)
            await self.flush()
        if trailers:
            self.state.send_headers(stream_id, [("checksum", "x")], end_stream=True)
        await self.flush()
        return stream_id

    async def read(self) -> None:
        """Read what comes next."""
        received = await asyncio.wait_for(self._reader.read(65_536), 10)
        assert received, "the sandbox left"
        for event_ in self.state.receive_data(received):
            match event_:
                case h2.events.ResponseReceived(stream_id=int(stream), headers=list(headers)):
                    fields = {bytes(name).decode(): bytes(value).decode() for name, value in headers}
                    self._answers[stream] = Answer(int(fields.pop(":status")), fields, b"")
                case h2.events.DataReceived(stream_id=int(stream), data=bytes(data)):
                    found = self._answers[stream]
                    self._answers[stream] = found._replace(body=found.body + data)
                    self.state.acknowledge_received_data(event_.flow_controlled_length or 0, stream)
                case h2.events.StreamEnded(stream_id=int(stream)):
                    self._ended.add(stream)
                case _:
                    pass
        await self.flush()

    async def answer(self, stream_id: int) -> Answer:
        while stream_id not in self._ended:
            await self.read()
        return self._answers[stream_id]

    def close(self) -> None:
        self._writer.close()


def tls_of(sandbox: Sandbox, *protocols: str) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=sandbox.ca_file)
    if protocols:
        context.set_alpn_protocols(protocols)
    return context


@pytest.fixture(params=["tls", "clear"])
async def client(sandbox: Sandbox, request: pytest.FixtureRequest) -> AsyncIterator[H2Client]:
    if request.param == "tls":
        address = urlsplit(sandbox.https_url)
        opened = H2Client(
            *await asyncio.open_connection(address.hostname, address.port, ssl=tls_of(sandbox, "h2"))
        )
    else:
        opened = H2Client(*await connect(sandbox))
    yield opened
    opened.close()


def event_fields(body: bytes = EVENT) -> list[tuple[str, str]]:
    more = [("webhook-id", "m1"), ("webhook-timestamp", "1"), ("webhook-signature", "v1,x")]
    return [*request_fields("POST", WEBHOOK), *more, ("content-length", str(len(body)))]


async def test_requests_of_the_package_h2_are_answered(sandbox: Sandbox, client: H2Client) -> None:
    await client.begin()
    # The first use the dynamic table, as this client fills it.
    streams = [await client.send(event_fields(), EVENT) for _ in range(15)]

    assert {(await client.answer(stream)).status for stream in streams} == {204}
    assert sandbox.stats("webhook").protocols == {"2": 15}
    assert sandbox.stats("webhook").delivered == 15


async def test_large_bodies_wait_for_windows_in_both_directions(client: H2Client) -> None:
    await client.begin({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: 100})
    body = b'{"type":"' + b"t" * 300_000 + b'"}'

    stream = await client.send(event_fields(body), body)
    page = await client.send(list(request_fields("GET", PAGE)))

    assert (await client.answer(stream)).status == 204
    found = await client.answer(page)
    assert found.status == 200
    assert len(found.body) == int(found.headers["content-length"]) > 1_000


async def test_trailers_end_a_request(client: H2Client) -> None:
    await client.begin()

    assert (await client.answer(await client.send(event_fields(), EVENT, trailers=True))).status == 204


async def test_a_table_given_up_and_taken_again_is_followed(sandbox: Sandbox) -> None:
    encoder = hpack.Encoder()
    async with linked(sandbox) as link:
        for number, size in enumerate((4_096, 4_096, 0, 0, 0, 100, 4_096, 4_096)):
            if encoder.header_table_size != size:
                encoder.header_table_size = size
            stream_id = 2 * number + 1
            block = encoder.encode(event_fields())
            link.send(
                HeadersFrame(stream_id, block, flags=["END_HEADERS"]),
                DataFrame(stream_id, EVENT, flags=["END_STREAM"]),
            )
            assert (await answer(link, stream_id)).status == 204
    assert sandbox.stats("webhook").delivered == 8


async def test_httpx_is_answered_over_one_connection(sandbox: Sandbox) -> None:
    async with httpx.AsyncClient(http2=True, verify=tls_of(sandbox), base_url=sandbox.https_url) as http:
        answers = await asyncio.gather(*(http.get("/_sandbox/stats") for _ in range(15)))
        posted = await http.post("/v1/projects/p/messages:send", json={"message": {"token": "t"}})

    assert {(each.status_code, each.http_version) for each in answers} == {(200, "HTTP/2")}
    assert posted.status_code == 401
    assert posted.json()["error"]["status"] == "UNAUTHENTICATED"
    assert posted.headers["date"].endswith("GMT")


async def test_frames_may_come_byte_by_byte_and_blocks_in_parts(sandbox: Sandbox) -> None:
    reader, writer = await connect(sandbox)
    block = hpack.Encoder().encode(event_fields())
    sent = b"".join(
        (
            PREFACE,
            settings_frame({}),
            HeadersFrame(1, block[:5], pad_length=3, flags=["PADDED"]).serialize(),
            ContinuationFrame(1, block[5:9]).serialize(),
            ContinuationFrame(1, block[9:], flags=["END_HEADERS"]).serialize(),
            DataFrame(1, EVENT, pad_length=9, flags=["PADDED", "END_STREAM"]).serialize(),
        )
    )
    for at in range(len(sent)):
        writer.write(sent[at : at + 1])
        await asyncio.sleep(0)

    await until(lambda: sandbox.stats("webhook").delivered == 1)
    writer.close()
    await reader.read()


async def test_head_has_no_body_and_a_missing_page_is_404(sandbox: Sandbox) -> None:
    async with linked(sandbox) as link:
        link.send(link.headers(1, *request_fields("HEAD", "/nothing"), end=True))

        found = await answer(link, 1)

    assert (found.status, found.body) == (404, b"")
    assert int(found.headers["content-length"]) > 0


async def test_an_answer_waits_for_the_windows_of_its_client(sandbox: Sandbox) -> None:
    async with linked(sandbox, {Setting.INITIAL_WINDOW_SIZE: 10}) as link:
        link.send(get(link, 1), get(link, 3))
        await link.frame(DataFrame, 2)
        assert (link.body(1), link.body(3)) != (b"", b"")
        assert len(link.body(1)) == len(link.body(3)) == 10

        link.send(WindowUpdateFrame(3, window_increment=100_000))
        whole = await answer(link, 3)
        link.send(settings_frame({Setting.INITIAL_WINDOW_SIZE: 65_535}))

        assert (await answer(link, 1)).body == whole.body


async def test_ping_is_answered(sandbox: Sandbox) -> None:
    async with linked(sandbox) as link:
        link.send(PingFrame(0, b"12345678"))

        said = await link.frame(PingFrame)

    assert (said.opaque_data, "ACK" in said.flags) == (b"12345678", True)


async def test_answers_of_a_latency_come_together_and_a_reset_one_does_not_come(sandbox: Sandbox) -> None:
    sandbox.faults_of("webhook").latency(Latency(0.05))
    async with linked(sandbox) as link:
        link.send(*event(link, 1), *event(link, 3), RstStreamFrame(3), *event(link, 5))
        await answer(link, 1)
        await answer(link, 5)
        link.send(get(link, 7))
        await answer(link, 7)

        assert [frame.stream_id for frame in link.frames if isinstance(frame, HeadersFrame)] == [1, 5, 7]
    stats = sandbox.stats("webhook")
    assert (stats.delivered, stats.in_flight, stats.most_in_flight) == (3, 0, 2)


async def test_a_cut_answer_breaks_off_and_its_connection_goes_on(sandbox: Sandbox) -> None:
    sandbox.faults_of("webhook").script("ada", Cut(delivered=True))
    async with linked(sandbox) as link:
        link.send(*event(link, 1))

        await link.reset_code(1)

        assert link.body(1) == b"{"
        link.send(*event(link, 3))
        assert (await answer(link, 3)).status == 204
    assert sandbox.stats("webhook").answers == {"CUT": 1, "OK": 1}


async def test_a_client_that_leaves_is_no_longer_in_flight(sandbox: Sandbox) -> None:
    sandbox.faults_of("webhook").script("ada", Hang(), repeat=True)
    async with linked(sandbox) as link:
        link.send(*event(link, 1), event_head(link, 3))
        await until(lambda: sandbox.stats("webhook").in_flight == 2)

    await until(lambda: sandbox.stats("webhook").in_flight == 0)


async def test_a_silent_client_is_pinged_and_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keep_alive, "PING_AFTER_SECONDS", 0.0)
    monkeypatch.setattr(keep_alive, "PING_SECONDS", 0.0)
    async with Sandbox() as sandbox, linked(sandbox) as link:
        await link.frame(PingFrame)
        await link.end()


async def test_closing_answers_what_is_under_way_and_gives_up_what_hangs() -> None:
    async with Sandbox(SandboxSettings(latency=Latency(0.2))) as sandbox:
        sandbox.faults_of("webhook").script("hangs", Hang())
        reader, writer = await connect(sandbox)
        async with linked(sandbox) as link, asyncio.TaskGroup() as group:
            hangs = link.headers(3, *request_fields("POST", "/webhook/hangs"), *event_fields()[4:])
            link.send(*event(link, 1), hangs, DataFrame(3, EVENT, flags=["END_STREAM"]))
            await until(lambda: sandbox.stats("webhook").requests == 2)
            closing = group.create_task(sandbox.__aexit__())

            assert (await answer(link, 1)).status == 204
            assert (await link.frame(GoAwayFrame)).last_stream_id == 3
            await link.reset_code(3)
            await asyncio.wait_for(closing, 3)
        # A connection that never said anything is closed as well.
        assert await reader.read() == b""
        writer.close()
