"""Every rule of RFC 9113 that a server can break: the error it is told, and what becomes of requests."""

from struct import pack
from typing import NamedTuple

import pytest
from hyperframe.frame import GoAwayFrame

from tests.providers.http.h2.raw_peer import RawPeer, half_answered, post
from tocsin.http2 import keep_alive
from tocsin.http2.errors import ErrorCode
from tocsin.http2.frames import FrameType, Setting, frame, settings_ack, settings_frame
from tocsin.providers.http.h2.errors import ConnectionLostError, StreamResetError

END_STREAM, ACK, END_HEADERS, PADDED, PRIORITY = 0x1, 0x1, 0x4, 0x8, 0x20
STATUS_200 = b"\x88"

D, H, C = FrameType.DATA, FrameType.HEADERS, FrameType.CONTINUATION
PROTOCOL, SIZE, FLOW = ErrorCode.PROTOCOL_ERROR, ErrorCode.FRAME_SIZE_ERROR, ErrorCode.FLOW_CONTROL_ERROR
CLOSED, COMPRESSION, CALM = ErrorCode.STREAM_CLOSED, ErrorCode.COMPRESSION_ERROR, ErrorCode.ENHANCE_YOUR_CALM


def literal(name: bytes, value: bytes) -> bytes:
    return b"\x00" + bytes([len(name)]) + name + bytes([len(value)]) + value


def head(*fields: tuple[bytes, bytes], end: bool = False, status: bytes = STATUS_200) -> bytes:
    block = status + b"".join(literal(*each) for each in fields)
    return frame(H, END_HEADERS | (END_STREAM if end else 0), 1, block)


class Broken(NamedTuple):
    """What a peer sends while request 1 waits for its answer and request 3 was answered."""

    name: str
    code: ErrorCode
    sent: bytes


OF_THE_CONNECTION = [
    Broken("DATA on stream 0", PROTOCOL, frame(D, 0, 0, b"x")),
    Broken("DATA on a stream not begun", PROTOCOL, frame(D, 0, 99, b"x")),
    Broken("DATA on a stream of the server", PROTOCOL, frame(D, 0, 2, b"x")),
    Broken("DATA on a stream that ended", CLOSED, frame(D, 0, 3, b"x")),
    Broken("DATA padded without a length", SIZE, frame(D, PADDED, 1)),
    Broken("DATA with more padding than payload", PROTOCOL, head() + frame(D, PADDED, 1, b"\x05abc")),
    Broken("DATA with as much padding as payload", PROTOCOL, head() + frame(D, PADDED, 1, b"\x01")),
    Broken("a frame larger than ours may be", SIZE, pack(">HBBBL", 16_385 >> 8, 1, D, 0, 1)),
    Broken("the largest frame there can be", SIZE, b"\xff\xff\xff" + pack(">BBL", 0xFE, 0, 0)),
    Broken("HEADERS on stream 0", PROTOCOL, frame(H, END_HEADERS, 0, STATUS_200)),
    Broken("HEADERS on a stream not begun", PROTOCOL, frame(H, END_HEADERS, 99, STATUS_200)),
    Broken("HEADERS on a stream of the server", PROTOCOL, frame(H, END_HEADERS, 2, STATUS_200)),
    Broken("HEADERS on a stream that ended", CLOSED, frame(H, END_HEADERS, 3, STATUS_200)),
    Broken("HEADERS padded without a length", SIZE, frame(H, END_HEADERS | PADDED, 1)),
    Broken("HEADERS with too much padding", PROTOCOL, frame(H, END_HEADERS | PADDED, 1, b"\x09\x88")),
    Broken("HEADERS too short for a priority", SIZE, frame(H, END_HEADERS | PRIORITY, 1, b"\x00\x00")),
    Broken("PRIORITY on stream 0", PROTOCOL, frame(FrameType.PRIORITY, 0, 0, b"\x00" * 5)),
    Broken("RST_STREAM on stream 0", PROTOCOL, frame(FrameType.RST_STREAM, 0, 0, b"\x00" * 4)),
    Broken("RST_STREAM on a stream not begun", PROTOCOL, frame(FrameType.RST_STREAM, 0, 99, b"\x00" * 4)),
    Broken("RST_STREAM of three bytes", SIZE, frame(FrameType.RST_STREAM, 0, 1, b"\x00" * 3)),
    Broken("RST_STREAM of five bytes", SIZE, frame(FrameType.RST_STREAM, 0, 1, b"\x00" * 5)),
    Broken("SETTINGS on a stream", PROTOCOL, frame(FrameType.SETTINGS, 0, 1)),
    Broken("SETTINGS of five bytes", SIZE, frame(FrameType.SETTINGS, 0, 0, b"\x00" * 5)),
    Broken("SETTINGS acknowledged with a payload", SIZE, frame(FrameType.SETTINGS, ACK, 0, b"\x00" * 6)),
    Broken("ENABLE_PUSH by a server", PROTOCOL, settings_frame({Setting.ENABLE_PUSH: 1})),
    Broken("ENABLE_PUSH of two", PROTOCOL, settings_frame({Setting.ENABLE_PUSH: 2})),
    Broken("INITIAL_WINDOW_SIZE too large", FLOW, settings_frame({Setting.INITIAL_WINDOW_SIZE: 2**31})),
    Broken("MAX_FRAME_SIZE too small", PROTOCOL, settings_frame({Setting.MAX_FRAME_SIZE: 16_383})),
    Broken("MAX_FRAME_SIZE too large", PROTOCOL, settings_frame({Setting.MAX_FRAME_SIZE: 2**24})),
    Broken(
        "INITIAL_WINDOW_SIZE that makes a window too large",
        FLOW,
        frame(FrameType.WINDOW_UPDATE, 0, 1, pack(">L", 2**31 - 1 - 65_535))
        + settings_frame({Setting.INITIAL_WINDOW_SIZE: 2**31 - 1}),
    ),
    Broken("PUSH_PROMISE", PROTOCOL, frame(FrameType.PUSH_PROMISE, END_HEADERS, 1, b"\x00\x00\x00\x02\x88")),
    Broken("PING on a stream", PROTOCOL, frame(FrameType.PING, 0, 1, b"\x00" * 8)),
    Broken("PING of seven bytes", SIZE, frame(FrameType.PING, 0, 0, b"\x00" * 7)),
    Broken("GOAWAY on a stream", PROTOCOL, frame(FrameType.GOAWAY, 0, 1, b"\x00" * 8)),
    Broken("GOAWAY of seven bytes", SIZE, frame(FrameType.GOAWAY, 0, 0, b"\x00" * 7)),
    Broken(
        "GOAWAY with a higher stream than before",
        PROTOCOL,
        frame(FrameType.GOAWAY, 0, 0, pack(">LL", 3, 0)) + frame(FrameType.GOAWAY, 0, 0, pack(">LL", 5, 0)),
    ),
    Broken("WINDOW_UPDATE by nothing", PROTOCOL, frame(FrameType.WINDOW_UPDATE, 0, 0, b"\x00" * 4)),
    Broken("WINDOW_UPDATE of three bytes", SIZE, frame(FrameType.WINDOW_UPDATE, 0, 0, b"\x00" * 3)),
    Broken("WINDOW_UPDATE of a stream, three bytes", SIZE, frame(FrameType.WINDOW_UPDATE, 0, 1, b"\x00" * 3)),
    Broken(
        "WINDOW_UPDATE on a stream not begun",
        PROTOCOL,
        frame(FrameType.WINDOW_UPDATE, 0, 99, b"\x00\x00\x00\x01"),
    ),
    Broken(
        "WINDOW_UPDATE beyond the largest window",
        FLOW,
        frame(FrameType.WINDOW_UPDATE, 0, 0, pack(">L", 2**31 - 1)),
    ),
    Broken("CONTINUATION of nothing", PROTOCOL, frame(C, END_HEADERS, 1, STATUS_200)),
    Broken("CONTINUATION after the end", PROTOCOL, head() + frame(C, END_HEADERS, 1, STATUS_200)),
    Broken("CONTINUATION on stream 0", PROTOCOL, frame(H, 0, 1) + frame(C, END_HEADERS, 0, STATUS_200)),
    Broken("CONTINUATION of another stream", PROTOCOL, frame(H, 0, 1) + frame(C, END_HEADERS, 3, STATUS_200)),
    Broken("PING within a header block", PROTOCOL, frame(H, 0, 1) + frame(FrameType.PING, 0, 0, b"\x00" * 8)),
    Broken("DATA within a header block", PROTOCOL, frame(H, 0, 1) + frame(D, 0, 1, b"x")),
    Broken("HEADERS within a header block", PROTOCOL, frame(H, 0, 1) + head()),
    Broken("an extension within a header block", PROTOCOL, frame(H, 0, 1) + frame(0xFE, 0, 1)),
    Broken("a header block without end", CALM, frame(H, 0, 1) + frame(C, 0, 1, b"x" * 16_000) * 5),
    Broken("a field of no index", COMPRESSION, frame(H, END_HEADERS, 1, b"\x80")),
    Broken("a field of the dynamic table", COMPRESSION, frame(H, END_HEADERS, 1, b"\x88\xbe")),
    Broken("a larger dynamic table", COMPRESSION, frame(H, END_HEADERS, 1, b"\x3f\xe1\x1f\x88")),
    Broken("a table size after a field", COMPRESSION, frame(H, END_HEADERS, 1, b"\x88\x20")),
    Broken("a field that breaks off", COMPRESSION, frame(H, END_HEADERS, 1, b"\x88\x00\x03ab")),
    Broken("a number that breaks off", COMPRESSION, frame(H, END_HEADERS, 1, b"\x88\x0f")),
    Broken("a number without end", COMPRESSION, frame(H, END_HEADERS, 1, b"\xff" + b"\xff" * 20)),
    Broken(
        "a Huffman code with EOS", COMPRESSION, frame(H, END_HEADERS, 1, b"\x88\x00\x84\xff\xff\xff\xff\x00")
    ),
    Broken(
        "a Huffman code with wrong padding", COMPRESSION, frame(H, END_HEADERS, 1, b"\x88\x00\x81\x18\x00")
    ),
]

OF_A_STREAM = [
    Broken("content before its header", PROTOCOL, frame(D, 0, 1, b"x")),
    Broken("an end before its header", PROTOCOL, frame(D, END_STREAM, 1)),
    Broken("no status", PROTOCOL, frame(H, END_HEADERS, 1, literal(b"server", b"x"))),
    Broken("no header at all", PROTOCOL, frame(H, END_HEADERS, 1)),
    Broken("a status twice", PROTOCOL, head((b":status", b"200"))),
    Broken("a status after another header", PROTOCOL, head((b"a", b"b"), (b":status", b"200"))),
    Broken("a status that is none", PROTOCOL, head(status=literal(b":status", b"2xx"))),
    Broken("a status of four digits", PROTOCOL, head(status=literal(b":status", b"2000"))),
    Broken("status 101", PROTOCOL, head(status=literal(b":status", b"101"))),
    Broken("an unknown pseudo-header", PROTOCOL, head((b":colour", b"red"))),
    Broken("a pseudo-header of requests", PROTOCOL, head((b":path", b"/"))),
    Broken("a name in capitals", PROTOCOL, head((b"Server", b"x"))),
    Broken("a name with a space", PROTOCOL, head((b"ser ver", b"x"))),
    Broken("an empty name", PROTOCOL, head((b"", b"x"))),
    Broken("a value with a line break", PROTOCOL, head((b"server", b"x\r\ny"))),
    Broken("a value with a zero", PROTOCOL, head((b"server", b"x\x00y"))),
    Broken("a value that begins with a space", PROTOCOL, head((b"server", b" x"))),
    Broken("a header of one connection", PROTOCOL, head((b"connection", b"close"))),
    Broken("transfer-encoding", PROTOCOL, head((b"transfer-encoding", b"chunked"))),
    Broken("content-length that is no number", PROTOCOL, head((b"content-length", b"-1"))),
    Broken("content-length twice", PROTOCOL, head((b"content-length", b"1"), (b"content-length", b"2"))),
    Broken("more than content-length", PROTOCOL, head((b"content-length", b"1")) + frame(D, 0, 1, b"xy")),
    Broken(
        "less than content-length", PROTOCOL, head((b"content-length", b"3")) + frame(D, END_STREAM, 1, b"xy")
    ),
    Broken("content-length and no content", PROTOCOL, head((b"content-length", b"3"), end=True)),
    Broken(
        "an interim answer that ends",
        PROTOCOL,
        frame(H, END_HEADERS | END_STREAM, 1, literal(b":status", b"103")),
    ),
    Broken("trailers that do not end", PROTOCOL, head() + frame(H, END_HEADERS, 1, literal(b"a", b"b"))),
    Broken("trailers with a status", PROTOCOL, head() + frame(H, END_HEADERS | END_STREAM, 1, STATUS_200)),
    Broken("WINDOW_UPDATE by nothing", PROTOCOL, frame(FrameType.WINDOW_UPDATE, 0, 1, b"\x00" * 4)),
    Broken(
        "WINDOW_UPDATE beyond the largest window",
        FLOW,
        frame(FrameType.WINDOW_UPDATE, 0, 1, pack(">L", 2**31 - 1)),
    ),
    Broken("PRIORITY of four bytes", SIZE, frame(FrameType.PRIORITY, 0, 1, b"\x00" * 4)),
    Broken(
        "too many headers",
        CALM,
        frame(H, 0, 1, STATUS_200 + b"\x90" * 250) + frame(C, END_HEADERS, 1, b"\x90" * 50),
    ),
]


@pytest.mark.parametrize("broken", OF_THE_CONNECTION, ids=lambda broken: broken.name)
async def test_a_connection_error_ends_the_connection(broken: Broken) -> None:
    async with RawPeer() as peer:
        client, link, waiting = await half_answered(peer)

        link.send(broken.sent)

        with pytest.raises(ConnectionLostError) as failed:
            await waiting
        assert failed.value.may_be_processed
        assert broken.code.name in str(failed.value)
        said = await link.frame(GoAwayFrame)
        assert (ErrorCode(said.error_code), said.last_stream_id) == (broken.code, 0)
        await link.end()
        asked = post(client)
        other = await peer.link(2)
        other.answer(await other.request())
        assert (await asked).status == 200


@pytest.mark.parametrize("broken", OF_A_STREAM, ids=lambda broken: broken.name)
async def test_a_stream_error_resets_one_stream(broken: Broken) -> None:
    async with RawPeer() as peer:
        client = peer.client()
        waiting, other = post(client, b"1"), post(client, b"2")
        link = await peer.link()
        await link.request(2)

        link.send(broken.sent)

        with pytest.raises(StreamResetError) as failed:
            await waiting
        assert failed.value.may_be_processed
        assert broken.code.name in str(failed.value)
        assert ErrorCode(await link.reset_code(1)) == broken.code
        link.answer(3)
        assert (await other).status == 200
        assert len(peer.links) == 1


@pytest.mark.parametrize(
    "first",
    [
        settings_ack(),
        frame(FrameType.PING, 0, 0, b"\x00" * 8),
        frame(0xFE, 0, 0),
        frame(FrameType.GOAWAY, 0, 0, b"\x00" * 8),
        b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n",
    ],
    ids=["an acknowledgement", "PING", "an extension", "GOAWAY", "HTTP/1.1"],
)
async def test_a_peer_that_does_not_begin_with_settings_is_no_connection(first: bytes) -> None:
    async with RawPeer(silent=True) as peer:
        asked = post(peer.client())
        link = await peer.link()
        link.send(first)

        with pytest.raises(Exception, match="ERROR") as failed:
            await asked

        assert not failed.value.may_be_processed  # type: ignore[attr-defined]
        await link.end()


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
    noise: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keep_alive, "MOST_IDLE_FRAMES", 50)
    async with RawPeer() as peer:
        _, link, waiting = await half_answered(peer)
        link.send(head(), noise * 60)

        with pytest.raises(ConnectionLostError, match="ENHANCE_YOUR_CALM"):
            await waiting


@pytest.mark.parametrize("stream", [0, 1])
async def test_a_flood_of_window_updates_ends_the_connection(
    stream: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keep_alive, "MOST_WINDOW_UPDATES", 50)
    async with RawPeer() as peer:
        _, link, waiting = await half_answered(peer)
        link.send(frame(FrameType.WINDOW_UPDATE, 0, stream, b"\x00\x00\x00\x01") * 60)

        with pytest.raises(ConnectionLostError, match="ENHANCE_YOUR_CALM"):
            await waiting


async def test_a_flood_of_interim_answers_ends_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keep_alive, "MOST_IDLE_FRAMES", 50)
    async with RawPeer() as peer:
        _, link, waiting = await half_answered(peer)
        link.send(head(status=literal(b":status", b"103")) * 60)

        with pytest.raises(ConnectionLostError, match="ENHANCE_YOUR_CALM"):
            await waiting
