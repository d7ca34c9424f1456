"""Every rule of RFC 9113 that a client can break: the error it is told, and that others are served on."""

from struct import pack

import pytest
from hyperframe.frame import DataFrame, GoAwayFrame, RstStreamFrame, SettingsFrame

from tests.providers.http.h2 import test_hostile_peer as peer
from tests.providers.http.h2.test_hostile_peer import END_HEADERS, END_STREAM, Broken, literal
from tests.sandbox.http.raw_client import EVENT, answer, connect, event, event_head, get, linked
from tocsin.http2 import keep_alive
from tocsin.http2.errors import ErrorCode
from tocsin.http2.frames import PREFACE, FrameType, Setting, frame, settings_ack, settings_frame
from tocsin.sandbox import Hang, Sandbox
from tocsin.sandbox.http import bodies

D, H, C = FrameType.DATA, FrameType.HEADERS, FrameType.CONTINUATION
PROTOCOL, SIZE, FLOW = ErrorCode.PROTOCOL_ERROR, ErrorCode.FRAME_SIZE_ERROR, ErrorCode.FLOW_CONTROL_ERROR
CLOSED, COMPRESSION, CALM = ErrorCode.STREAM_CLOSED, ErrorCode.COMPRESSION_ERROR, ErrorCode.ENHANCE_YOUR_CALM

POST, HTTP, ROOT = b"\x83", b"\x86", b"\x84"
# What a client may do, unlike a server.
_OF_SERVERS = {
    "HEADERS on a stream not begun",
    "ENABLE_PUSH by a server",
    "GOAWAY with a higher stream than before",
    "a larger dynamic table",
}
OF_THE_CONNECTION = [
    *(broken for broken in peer.OF_THE_CONNECTION if broken.name not in _OF_SERVERS),
    Broken("a stream that a server begins", PROTOCOL, frame(H, END_HEADERS, 98, POST + HTTP + ROOT)),
    Broken("a table larger than allowed", COMPRESSION, frame(H, END_HEADERS, 5, b"\x3f\xe2\x1f" + POST)),
    Broken("a field that was evicted", COMPRESSION, frame(H, END_HEADERS, 5, b"\x3f\x00\x41\x01a\xbe")),
    Broken(
        "too many fields of a table",
        CALM,
        frame(H, END_HEADERS, 5, b"\x3f\xe1\x1f\x40\x01a\x7f\x80\x06" + b"v" * 895 + b"\xbe" * 100),
    ),
]


def begun(*fields: tuple[bytes, bytes], pseudo: bytes = POST + HTTP + ROOT, end: bool = False) -> bytes:
    """Build a request on stream 5."""
    block = pseudo + b"".join(literal(*each) for each in fields)
    return frame(H, END_HEADERS | (END_STREAM if end else 0), 5, block)


OF_A_STREAM = [
    Broken("no header at all", PROTOCOL, begun(pseudo=b"")),
    Broken("no method", PROTOCOL, begun(pseudo=HTTP + ROOT)),
    Broken("no scheme", PROTOCOL, begun(pseudo=POST + ROOT)),
    Broken("no path", PROTOCOL, begun(pseudo=POST + HTTP)),
    Broken("an empty path", PROTOCOL, begun((b":path", b""), pseudo=POST + HTTP)),
    Broken("a path that is none", PROTOCOL, begun((b":path", b"a b"), pseudo=POST + HTTP)),
    Broken("a method that is none", PROTOCOL, begun((b":method", b"a b"), pseudo=HTTP + ROOT)),
    Broken("CONNECT", PROTOCOL, begun((b":method", b"CONNECT"), (b":authority", b"a:1"), pseudo=b"")),
    Broken("a path twice", PROTOCOL, begun(pseudo=POST + HTTP + ROOT + ROOT)),
    Broken("a pseudo-header of answers", PROTOCOL, begun((b":status", b"200"))),
    Broken("a pseudo-header after others", PROTOCOL, begun((b"a", b"b"), (b":authority", b"c"))),
    Broken("a name in capitals", PROTOCOL, begun((b"Server", b"x"))),
    Broken("a value with a line break", PROTOCOL, begun((b"server", b"x\r\ny"))),
    Broken("a path with a zero", PROTOCOL, begun((b":path", b"/a\x00"), pseudo=POST + HTTP)),
    Broken("a header of one connection", PROTOCOL, begun((b"connection", b"close"))),
    Broken("TE", PROTOCOL, begun((b"te", b"gzip"))),
    Broken("content-length that is no number", PROTOCOL, begun((b"content-length", b"-1"))),
    Broken("more than content-length", PROTOCOL, begun((b"content-length", b"1")) + frame(D, 0, 5, b"xy")),
    Broken("less than content-length", PROTOCOL, begun((b"content-length", b"3")) + frame(D, 1, 5, b"xy")),
    Broken("content-length and no content", PROTOCOL, begun((b"content-length", b"3"), end=True)),
    Broken("trailers that do not end", PROTOCOL, begun() + frame(H, END_HEADERS, 5, literal(b"a", b"b"))),
    Broken("trailers with a path", PROTOCOL, begun() + frame(H, END_HEADERS | END_STREAM, 5, ROOT)),
    Broken("WINDOW_UPDATE by nothing", PROTOCOL, begun() + frame(FrameType.WINDOW_UPDATE, 0, 5, b"\x00" * 4)),
    Broken(
        "WINDOW_UPDATE beyond the largest window",
        FLOW,
        begun() + frame(FrameType.WINDOW_UPDATE, 0, 5, pack(">L", 2**31 - 1)),
    ),
    Broken("PRIORITY of four bytes", SIZE, begun() + frame(FrameType.PRIORITY, 0, 5, b"\x00" * 4)),
]


@pytest.mark.parametrize("broken", OF_THE_CONNECTION, ids=lambda broken: broken.name)
async def test_a_connection_error_ends_one_connection(sandbox: Sandbox, broken: Broken) -> None:
    async with linked(sandbox) as link, linked(sandbox) as other:
        link.send(event_head(link, 1), *event(link, 3))
        assert (await answer(link, 3)).status == 204

        link.send(broken.sent)

        said = await link.frame(GoAwayFrame)
        assert ErrorCode(said.error_code) == broken.code
        assert said.last_stream_id >= 3
        await link.end()
        other.send(get(other, 1))
        assert (await answer(other, 1)).status == 200
    assert sandbox.stats("webhook").in_flight == 0


@pytest.mark.parametrize("broken", OF_A_STREAM, ids=lambda broken: broken.name)
async def test_a_stream_error_resets_one_stream(sandbox: Sandbox, broken: Broken) -> None:
    async with linked(sandbox) as link:
        link.send(event_head(link, 1))

        link.send(broken.sent)

        assert ErrorCode(await link.reset_code(5)) == broken.code
        link.send(DataFrame(5, b"on its way"), DataFrame(1, EVENT, flags=["END_STREAM"]))
        assert (await answer(link, 1)).status == 204


@pytest.mark.parametrize(
    "late", [frame(D, 0, 1, b"x"), frame(H, END_HEADERS | END_STREAM, 1)], ids=["DATA", "HEADERS"]
)
async def test_what_comes_after_the_end_of_a_request_resets_its_stream(sandbox: Sandbox, late: bytes) -> None:
    sandbox.faults_of("webhook").script("ada", Hang())
    async with linked(sandbox) as link:
        link.send(*event(link, 1), late)

        assert ErrorCode(await link.reset_code(1)) == CLOSED
        link.send(get(link, 3))
        assert (await answer(link, 3)).status == 200
        assert sandbox.stats("webhook").in_flight == 0


@pytest.mark.parametrize(
    "first",
    [settings_ack(), frame(FrameType.PING, 0, 0, b"\x00" * 8), frame(0xFE, 0, 0)],
    ids=["an acknowledgement", "PING", "an extension"],
)
async def test_a_client_that_does_not_begin_with_settings_is_left(sandbox: Sandbox, first: bytes) -> None:
    reader, writer = await connect(sandbox)
    writer.write(PREFACE + first)

    assert frame(FrameType.GOAWAY, 0, 0, pack(">LL", 0, PROTOCOL))[3:] in await reader.read()
    writer.close()


async def test_a_preface_that_is_none_is_a_request_of_http_1(sandbox: Sandbox) -> None:
    reader, writer = await connect(sandbox)
    writer.write(b"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n")

    assert (await reader.read()).startswith(b"HTTP/1.1 400 ")
    writer.close()


@pytest.mark.parametrize(
    "noise",
    [
        frame(FrameType.PING, 0, 0, b"\x00" * 8),
        settings_frame({}),
        settings_ack(),
        frame(FrameType.PRIORITY, 0, 1, b"\x00" * 5),
        frame(FrameType.RST_STREAM, 0, 3, b"\x00" * 4),
        frame(FrameType.WINDOW_UPDATE, 0, 3, b"\x00\x00\x00\x01"),
        frame(D, 0, 1),
        frame(0xFE, 0, 0),
    ],
    ids=["PING", "SETTINGS", "ACK", "PRIORITY", "RST_STREAM", "WINDOW_UPDATE", "empty DATA", "extensions"],
)
async def test_a_flood_of_frames_that_carry_nothing_ends_the_connection(
    sandbox: Sandbox, noise: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keep_alive, "MOST_IDLE_FRAMES", 50)
    async with linked(sandbox) as link:
        link.send(event_head(link, 1), *event(link, 3))
        await answer(link, 3)

        link.send(noise * 80)

        assert ErrorCode((await link.frame(GoAwayFrame)).error_code) == CALM
        await link.end()


async def test_a_flood_of_window_updates_ends_the_connection(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keep_alive, "MOST_WINDOW_UPDATES", 50)
    async with linked(sandbox) as link:
        link.send(frame(FrameType.WINDOW_UPDATE, 0, 0, b"\x00\x00\x00\x01") * 80)

        assert ErrorCode((await link.frame(GoAwayFrame)).error_code) == CALM
        await link.end()


async def test_streams_above_the_limit_are_refused(sandbox: Sandbox) -> None:
    async with linked(sandbox) as link:
        said = await link.frame(SettingsFrame)
        assert said.settings[Setting.MAX_CONCURRENT_STREAMS] == 20
        link.send(*(event_head(link, number) for number in range(1, 43, 2)))

        assert ErrorCode(await link.reset_code(41)) == ErrorCode.REFUSED_STREAM
        assert sandbox.stats("webhook").in_flight == 20
        link.send(DataFrame(1, EVENT, flags=["END_STREAM"]))
        assert (await answer(link, 1)).status == 204
        link.send(*event(link, 43))
        assert (await answer(link, 43)).status == 204


async def test_answers_that_nobody_can_know_of_count_towards_the_limit(sandbox: Sandbox) -> None:
    """So that one read cannot make more answers than streams are allowed."""
    async with linked(sandbox) as link:
        link.send(*(get(link, number) for number in range(1, 61, 2)))

        assert ErrorCode(await link.reset_code(59)) == ErrorCode.REFUSED_STREAM
        assert (await answer(link, 39)).status == 200
        link.send(*(get(link, number) for number in range(61, 101, 2)))
        assert (await answer(link, 99)).status == 200


async def test_a_body_too_large_is_answered_before_it_ends(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bodies, "MOST_BODY_BYTES", 20_000)
    async with linked(sandbox) as link:
        link.send(event_head(link, 1), DataFrame(1, b"x" * 15_000), DataFrame(1, b"x" * 15_000))

        assert (await answer(link, 1)).status == 413
        assert ErrorCode(await link.reset_code(1)) == ErrorCode.NO_ERROR
        link.send(DataFrame(1, b"x" * 15_000, flags=["END_STREAM"]), *event(link, 3))
        assert (await answer(link, 3)).status == 204
    assert sandbox.stats("webhook").in_flight == 0


async def test_bodies_that_do_not_end_share_their_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "MOST_PARTIAL_BYTES", 50_000)
    async with Sandbox() as sandbox, linked(sandbox) as link, linked(sandbox) as other:
        link.send(event_head(link, 1), *[DataFrame(1, b"x" * 16_000)] * 3, get(link, 3))
        await answer(link, 3)
        other.send(event_head(other, 1), DataFrame(1, b"x" * 3_000))
        assert (await answer(other, 1)).status == 413

        link.send(RstStreamFrame(1), get(link, 5))
        await answer(link, 5)

        other.send(event_head(other, 3), DataFrame(3, b"x" * 3_000), DataFrame(3, b"", flags=["END_STREAM"]))
        assert (await answer(other, 3)).status == 400
