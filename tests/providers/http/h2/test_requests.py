"""Requests and their answers, with a peer that does what RFC 9113 allows it to do."""

import asyncio

import hpack
import pytest
from hyperframe.frame import (
    ContinuationFrame,
    DataFrame,
    HeadersFrame,
    PingFrame,
    PriorityFrame,
    SettingsFrame,
    WindowUpdateFrame,
)

from tests.providers.http.h2.raw_peer import RawPeer, post, warmed
from tocsin.http2.errors import ErrorCode
from tocsin.http2.fields import field
from tocsin.http2.frames import Setting, frame
from tocsin.http2.huffman import _known as known_texts
from tocsin.providers.http.h2.errors import StreamResetError
from tocsin.providers.http.h2.exchange import Exchange
from tocsin.providers.http.h2.header_fields import ResponseHeads


def decoded(block: bytes) -> list[tuple[str, str]]:
    return [(str(name), str(value)) for name, value in hpack.Decoder().decode(block)]


async def test_a_request_is_two_frames_and_its_answer_a_reply(peer: RawPeer) -> None:
    client = peer.client()
    head = client.head({"Authorization": "Bearer s3cret", "content-type": "application/json"})
    asked = client.post(head, client.path("/v1/send?x=1"), b'{"a": 1}')
    link = await peer.link()
    stream_id = await link.request()
    link.send(
        link.headers(stream_id, (":status", "200"), ("x-a", "1"), ("x-a", "2"), ("retry-after", "7")),
        DataFrame(stream_id, b'{"b"'),
        DataFrame(stream_id, b": 2}", flags=["END_STREAM"]),
    )

    reply = await asked

    assert (reply.status, reply.body) == (200, b'{"b": 2}')
    assert reply.headers == {"x-a": "1, 2", "retry-after": "7"}
    (block,) = [each.data for each in link.frames if isinstance(each, HeadersFrame)]
    assert decoded(block) == [
        (":method", "POST"),
        (":scheme", "http"),
        (":authority", peer.url.removeprefix("http://")),
        (":path", "/v1/send?x=1"),
        ("authorization", "Bearer s3cret"),
        ("content-type", "application/json"),
        ("content-length", "8"),
    ]
    assert link.body(stream_id) == b'{"a": 1}'
    assert "s3cret" not in repr(head)


async def test_the_client_says_all_six_settings_and_acknowledges_ours(peer: RawPeer) -> None:
    asked = post(peer.client())
    link = await peer.link()
    ours = await link.frame(SettingsFrame, 1)
    acknowledged = await link.frame(SettingsFrame, 2)
    link.answer(await link.request())
    await asked

    assert set(ours.settings) == set(Setting)
    assert (ours.settings[Setting.HEADER_TABLE_SIZE], ours.settings[Setting.ENABLE_PUSH]) == (0, 0)
    assert "ACK" in acknowledged.flags
    assert (await link.frame(WindowUpdateFrame)).stream_id == 0


async def test_requests_of_one_turn_are_written_together(peer: RawPeer) -> None:
    client, link = await warmed(peer)
    written: list[int] = []
    transport = client._pool._connections[0].writer.transport
    assert transport is not None
    write = transport.write
    client._pool._connections[0].writer.transport = _Recorder(written, write)  # type: ignore[assignment]

    asked = [post(client) for _ in range(50)]
    await link.request(51)

    assert len(written) == 1
    for stream_id in range(3, 103, 2):
        link.answer(stream_id)
    assert len(await asyncio.gather(*asked)) == 50


class _Recorder:
    def __init__(self, written: list[int], write: object) -> None:
        self._written, self._write = written, write

    def write(self, frames: bytes) -> None:
        self._written.append(len(frames))
        self._write(frames)  # type: ignore[operator]

    def is_closing(self) -> bool:
        return True


async def test_an_answer_may_have_interim_ones_padding_priority_continuation_and_trailers(
    peer: RawPeer,
) -> None:
    asked = post(peer.client())
    link = await peer.link()
    stream_id = await link.request()
    block = link.block((":status", "200"), ("server", "x"))
    link.send(
        link.headers(stream_id, (":status", "103"), ("link", "</a>")),
        link.headers(stream_id, (":status", "100")),
        frame(0xFE, 0xFF, stream_id, b"of an extension"),
        HeadersFrame(
            stream_id, block[:2], pad_length=4, depends_on=0, stream_weight=15, flags=["PADDED", "PRIORITY"]
        ),
        ContinuationFrame(stream_id, block[2:5]),
        ContinuationFrame(stream_id, block[5:], flags=["END_HEADERS"]),
        PriorityFrame(stream_id, depends_on=0, stream_weight=3),
        DataFrame(stream_id, b"padded", pad_length=9, flags=["PADDED"]),
        link.headers(stream_id, ("grpc-status", "0"), end=True),
    )

    reply = await asked

    assert (reply.status, reply.body, reply.headers) == (200, b"padded", {"server": "x"})


async def test_an_answer_without_content_may_end_with_its_header(peer: RawPeer) -> None:
    asked = post(peer.client())
    link = await peer.link()
    link.send(link.headers(await link.request(), (":status", "204"), ("content-length", "0"), end=True))

    assert (await asked).status == 204


async def test_a_ping_is_answered(peer: RawPeer) -> None:
    asked = post(peer.client())
    link = await peer.link()
    link.send(PingFrame(0, b"12345678"))
    answered = await link.frame(PingFrame)
    link.answer(await link.request())
    await asked

    assert (answered.opaque_data, set(answered.flags)) == (b"12345678", {"ACK"})


async def test_no_more_streams_than_the_peer_allows(peer: RawPeer) -> None:
    peer.settings = {Setting.MAX_CONCURRENT_STREAMS: 2}
    client = peer.client()
    asked = [post(client) for _ in range(5)]
    link = await peer.link()
    await link.request(2)
    assert len([each for each in link.frames if isinstance(each, HeadersFrame)]) == 2

    link.send(SettingsFrame(0, settings={Setting.MAX_CONCURRENT_STREAMS: 4}))
    await link.request(4)
    for number in range(1, 6):
        link.answer(await link.request(number))

    assert len(await asyncio.gather(*asked)) == 5


async def test_no_request_before_the_peer_has_said_what_it_allows(peer: RawPeer) -> None:
    peer.silent = True
    asked = post(peer.client())
    link = await peer.link()
    await link.frame(SettingsFrame)
    assert not [each for each in link.frames if isinstance(each, HeadersFrame)]

    link.send(SettingsFrame(0), SettingsFrame(0, flags=["ACK"]))
    link.answer(await link.request())

    assert (await asked).status == 200


async def test_a_body_waits_for_the_window_of_its_stream(peer: RawPeer) -> None:
    peer.settings = {Setting.INITIAL_WINDOW_SIZE: 10}
    client = peer.client()
    asked = post(client, b"a" * 25)
    link = await peer.link()
    assert (await link.frame(DataFrame)).data == b"a" * 10

    link.send(WindowUpdateFrame(1, window_increment=7))
    assert (await link.frame(DataFrame, 2)).data == b"a" * 7
    # A smaller one leaves the window below 0, which the next update has to make up for.
    link.send(SettingsFrame(0, settings={Setting.INITIAL_WINDOW_SIZE: 4}))
    await link.frame(SettingsFrame, 3)
    link.send(WindowUpdateFrame(1, window_increment=7))
    assert (await link.frame(DataFrame, 3)).data == b"a"
    link.send(SettingsFrame(0, settings={Setting.INITIAL_WINDOW_SIZE: 100}))
    link.answer(await link.request())

    assert (await asked).status == 200
    assert link.body(1) == b"a" * 25


async def test_bodies_wait_for_the_window_of_the_connection_in_their_order(peer: RawPeer) -> None:
    client = peer.client()
    asked = [post(client, each * 40_000) for each in (b"a", b"b", b"c")]
    link = await peer.link()
    await link.frame(HeadersFrame, 3)
    await link.request(1)
    sent = sum(len(each.data) for each in link.frames if isinstance(each, DataFrame))
    assert sent == 65_535

    link.send(WindowUpdateFrame(0, window_increment=1_000_000))
    await link.request(3)
    for stream_id in (1, 3, 5):
        link.answer(stream_id)

    assert len(await asyncio.gather(*asked)) == 3
    assert [link.body(stream_id) for stream_id in (1, 3, 5)] == [each * 40_000 for each in (b"a", b"b", b"c")]
    assert max(len(each.data) for each in link.frames if isinstance(each, DataFrame)) == 16_384


async def test_no_frame_is_larger_than_every_peer_takes(peer: RawPeer) -> None:
    peer.settings = {Setting.MAX_FRAME_SIZE: 40_000}
    asked = post(peer.client(), b"a" * 40_000)
    link = await peer.link()
    link.answer(await link.request())
    await asked

    sizes = [len(each.data) for each in link.frames if isinstance(each, DataFrame)]
    assert sizes == [16_384, 16_384, 40_000 - 2 * 16_384]


async def test_headers_that_fit_in_no_frame_are_continued(peer: RawPeer) -> None:
    asked = post(peer.client(), path="/" + "p" * 40_000)
    link = await peer.link()
    link.answer(await link.request())
    await asked

    blocks = [each.data for each in link.frames if isinstance(each, HeadersFrame | ContinuationFrame)]
    assert [len(block) <= 16_384 for block in blocks] == [True] * 3
    assert len(dict(decoded(b"".join(blocks)))[":path"]) == 40_001


async def test_headers_that_the_peer_does_not_take_are_not_sent(peer: RawPeer) -> None:
    peer.settings = {Setting.MAX_HEADER_LIST_SIZE: 4_000}
    client = peer.client()

    with pytest.raises(StreamResetError) as failed:
        await post(client, path="/" + "p" * 4_000)

    assert not failed.value.may_be_processed
    link = await peer.link()
    asked = post(client)
    link.answer(await link.request())
    assert (await asked).status == 200


async def test_windows_are_filled_again_as_the_peer_uses_them_up(peer: RawPeer) -> None:
    asked = post(peer.client())
    link = await peer.link()
    stream_id = await link.request()
    link.send(link.headers(stream_id, (":status", "200")))
    count = 1_000
    for number in range(count):
        link.send(DataFrame(stream_id, b"x" * 8_000, flags=["END_STREAM"] if number == count - 1 else []))
        if number and not number % 4:
            await link.frame(WindowUpdateFrame, 1 + number // 5)

    assert len((await asked).body) == 8_000 * count
    assert 0 in {each.stream_id for each in link.frames[4:] if isinstance(each, WindowUpdateFrame)}


async def test_a_cancelled_request_frees_its_stream_at_once(peer: RawPeer) -> None:
    peer.settings = {Setting.MAX_CONCURRENT_STREAMS: 1}
    client = peer.client()
    first, second = post(client), post(client)
    link = await peer.link()
    stream_id = await link.request()

    first.cancel()
    assert await link.reset_code(stream_id) == ErrorCode.CANCEL
    # What was on its way is ignored.
    link.answer(stream_id)
    link.answer(await link.request(2))

    assert (await second).status == 200
    assert first.cancelled()


async def test_a_request_cancelled_before_it_was_sent_is_forgotten(peer: RawPeer) -> None:
    peer.silent = True
    client = peer.client()
    first, second = post(client, b"1"), post(client, b"2")
    link = await peer.link()
    first.cancel()
    link.send(SettingsFrame(0), SettingsFrame(0, flags=["ACK"]))
    link.answer(await link.request())

    assert (await second).status == 200
    assert link.body(1) == b"2"


async def test_requests_that_wait_are_cancelled_without_searching_the_others(
    peer: RawPeer, monkeypatch: pytest.MonkeyPatch
) -> None:
    peer.silent = True
    client = peer.client()
    asked = [post(client) for _ in range(1_000)]
    compared = 0

    def compare(one: Exchange, other: object) -> bool:
        nonlocal compared
        compared += 1
        return one is other

    monkeypatch.setattr(Exchange, "__eq__", compare)

    for request in reversed(asked):
        request.cancel()

    assert all(request.cancelled() for request in asked)
    assert compared <= len(asked)


async def test_an_answer_before_the_whole_body_stops_the_rest(peer: RawPeer) -> None:
    peer.settings = {Setting.INITIAL_WINDOW_SIZE: 10}
    asked = post(peer.client(), b"a" * 100)
    link = await peer.link()
    await link.frame(DataFrame)
    link.answer(1, b"too large", "413")

    assert (await asked).status == 413
    assert await link.reset_code(1) == ErrorCode.CANCEL


async def test_what_no_request_can_have_is_not_sent(peer: RawPeer) -> None:
    client = peer.client()

    for header in ({"x": "a\r\nb: c"}, {"x": "a\x00"}, {"x y": "a"}, {"x": " a"}, {":path": "a\n"}):
        with pytest.raises(ValueError, match="cannot have"):
            client.head(header)
    with pytest.raises(ValueError, match="cannot have"):
        client.path("/a\r\nb")


def test_long_blocks_and_values_of_strangers_are_not_remembered() -> None:
    heads = ResponseHeads()
    before = known_texts.cache_info().misses
    encoder = hpack.Encoder()
    encoder.header_table_size = 0

    for number in range(10):
        block = encoder.encode([(":status", "200"), (f"x-{number}", f"{number}" * 2_000)])
        assert heads.decode(block).headers == {f"x-{number}": f"{number}" * 2_000}

    assert not heads._known
    # The short names are, the long values are not.
    assert known_texts.cache_info().misses <= before + 10


def test_heads_that_repeat_are_decoded_once() -> None:
    heads = ResponseHeads()
    block = b"\x88" + field("server", "x")

    assert heads.decode(block) is heads.decode(bytes(bytearray(block)))
    for number in range(2_000):
        assert heads.decode(b"\x88" + field("apns-id", str(number))).headers == {"apns-id": str(number)}
    assert len(heads._known) <= 512
