"""Requests that fail, and whether the peer may have processed them."""

import asyncio

import pytest
from hyperframe.frame import (
    GoAwayFrame,
    PingFrame,
    RstStreamFrame,
    SettingsFrame,
    WindowUpdateFrame,
)

from tests.providers.http.h2.raw_peer import RawPeer, post, warmed
from tests.waiting import until
from tocsin.http2 import keep_alive
from tocsin.http2.errors import ErrorCode
from tocsin.http2.frames import Setting
from tocsin.providers.http.h2 import connection as connections
from tocsin.providers.http.h2 import exchange as exchanges
from tocsin.providers.http.h2 import pool
from tocsin.providers.http.h2.errors import (
    ClientClosedError,
    ConnectFailedError,
    ConnectionLostError,
    RequestTimeoutError,
    StreamResetError,
)


async def test_a_request_times_out_and_may_have_been_processed(peer: RawPeer) -> None:
    client = peer.client(timeout=0.2)
    asked = post(client)
    link = await peer.link()
    stream_id = await link.request()

    with pytest.raises(RequestTimeoutError) as failed:
        await asked

    assert failed.value.may_be_processed
    assert await link.reset_code(stream_id) == ErrorCode.CANCEL


async def test_a_request_that_found_no_stream_in_time_was_not_processed(peer: RawPeer) -> None:
    peer.settings = {Setting.MAX_CONCURRENT_STREAMS: 0}

    with pytest.raises(RequestTimeoutError) as failed:
        await post(peer.client(timeout=0.2))

    assert not failed.value.may_be_processed


async def test_a_peer_that_says_nothing_is_a_connect_time_out(peer: RawPeer) -> None:
    peer.silent = True

    with pytest.raises(RequestTimeoutError) as failed:
        await post(peer.client(connect_timeout=0.2))

    assert not failed.value.may_be_processed


@pytest.mark.parametrize("code", [ErrorCode.INTERNAL_ERROR, ErrorCode.ENHANCE_YOUR_CALM, 0xBAD])
async def test_a_reset_stream_may_have_been_processed(peer: RawPeer, code: int) -> None:
    client = peer.client()
    asked = post(client)
    link = await peer.link()
    link.send(RstStreamFrame(await link.request(), error_code=code))

    with pytest.raises(StreamResetError) as failed:
        await asked

    assert failed.value.may_be_processed
    again = post(client)
    link.answer(await link.request(2))
    assert (await again).status == 200


async def test_a_refused_stream_is_sent_again_and_fails_in_the_end(peer: RawPeer) -> None:
    client = peer.client()
    asked = post(client)
    link = await peer.link()
    for number in range(1, pool.MOST_REPEATS + 2):
        link.send(RstStreamFrame(await link.request(number), error_code=ErrorCode.REFUSED_STREAM))

    with pytest.raises(StreamResetError, match="REFUSED_STREAM") as failed:
        await asked

    assert not failed.value.may_be_processed
    asked = post(client, b"again")
    link.send(RstStreamFrame(await link.request(5), error_code=ErrorCode.REFUSED_STREAM))
    link.answer(await link.request(6))
    assert (await asked).status == 200


async def test_a_peer_that_refuses_streams_gets_fewer_for_a_while(peer: RawPeer) -> None:
    client = peer.client(timeout=1.0)
    asked = [post(client) for _ in range(4)]
    link = await peer.link()
    await link.request(4)
    connection = client._pool._connections[0]
    link.send(RstStreamFrame(7, error_code=ErrorCode.ENHANCE_YOUR_CALM))
    with pytest.raises(StreamResetError):
        await asked[3]

    assert connection.limit == 1
    await until(lambda: connection.limit == connections.MOST_STREAMS)
    for stream_id in (1, 3, 5):
        link.answer(stream_id)
    assert len(await asyncio.gather(*asked[:3])) == 3


@pytest.mark.parametrize(("code", "limit"), [(ErrorCode.REFUSED_STREAM, 7), (ErrorCode.ENHANCE_YOUR_CALM, 3)])
async def test_answers_just_before_a_refused_stream_do_not_lower_the_limit(
    peer: RawPeer, code: ErrorCode, limit: int
) -> None:
    peer.settings = {Setting.MAX_CONCURRENT_STREAMS: 8}
    client = peer.client()
    client._pool._most = 1
    asked = [post(client) for _ in range(20)]
    link = await peer.link()
    await link.request(8)
    connection = client._pool._connections[0]
    answers = [link.headers(stream_id, (":status", "200"), end=True) for stream_id in range(1, 15, 2)]

    link.send(*answers, RstStreamFrame(15, error_code=code))
    await asyncio.gather(*asked[:7])

    assert connection.limit == limit
    for each in asked[7:]:
        each.cancel()


async def test_goaway_repeats_what_was_not_processed_on_another_connection(peer: RawPeer) -> None:
    client = peer.client()
    asked = [post(client, b"%d" % number) for number in range(4)]
    link = await peer.link()
    await link.request(4)
    link.send(GoAwayFrame(0, last_stream_id=3, error_code=ErrorCode.NO_ERROR))
    other = await peer.link(2)
    await other.request(2)
    link.answer(1, b"1")
    link.answer(3, b"3")
    for stream_id in (1, 3):
        other.answer(stream_id, other.body(stream_id))

    replies = await asyncio.gather(*asked)

    assert [reply.body for reply in replies] == [b"1", b"3", b"2", b"3"]
    await link.end()
    assert (await link.frame(GoAwayFrame)).error_code == ErrorCode.NO_ERROR
    assert client.connections == 1


async def test_what_a_peer_that_left_had_accepted_may_have_been_processed(peer: RawPeer) -> None:
    client = peer.client()
    asked = [post(client, b"%d" % number) for number in range(2)]
    link = await peer.link()
    await link.request(2)
    link.send(GoAwayFrame(0, last_stream_id=1, error_code=ErrorCode.INTERNAL_ERROR))
    link.close()

    with pytest.raises(ConnectionLostError) as failed:
        await asked[0]

    assert failed.value.may_be_processed
    other = await peer.link(2)
    other.answer(await other.request())
    assert (await asked[1]).status == 200


async def test_goaway_twice_as_when_a_peer_shuts_down_gracefully(peer: RawPeer) -> None:
    client = peer.client()
    asked = [post(client) for _ in range(2)]
    link = await peer.link()
    await link.request(2)
    link.send(GoAwayFrame(0, last_stream_id=2**31 - 1))
    link.send(GoAwayFrame(0, last_stream_id=1))
    other = await peer.link(2)
    other.answer(await other.request())
    link.answer(1)

    assert len(await asyncio.gather(*asked)) == 2


async def test_a_lost_connection_fails_what_was_sent(peer: RawPeer) -> None:
    client = peer.client()
    asked = post(client)
    link = await peer.link()
    await link.request()
    link.close()

    with pytest.raises(ConnectionLostError) as failed:
        await asked

    assert failed.value.may_be_processed
    asked = post(client)
    other = await peer.link(2)
    other.answer(await other.request())
    assert (await asked).status == 200


async def test_stream_ids_that_are_used_up_lead_to_another_connection(peer: RawPeer) -> None:
    client, link = await warmed(peer)
    client._pool._connections[0]._next_id = 2**31 - 1

    asked = [post(client) for _ in range(2)]
    other = await peer.link(2)
    other.answer(await other.request())
    assert await link.request(2) == 2**31 - 1
    link.answer(2**31 - 1)

    assert len(await asyncio.gather(*asked)) == 2
    await link.end()


async def test_a_silent_peer_is_pinged_and_one_that_does_not_answer_is_left(
    peer: RawPeer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keep_alive, "PING_AFTER_SECONDS", 0.05)
    monkeypatch.setattr(keep_alive, "PING_SECONDS", 0.5)
    client = peer.client(connect_timeout=0.5)
    asked = post(client)
    link = await peer.link()
    await link.request()
    ping = await link.frame(PingFrame)
    link.send(PingFrame(0, ping.opaque_data, flags=["ACK"]))
    await link.frame(PingFrame, 2)

    with pytest.raises(ConnectionLostError, match="PING") as failed:
        await asked

    assert failed.value.may_be_processed
    await link.end()


async def test_frames_that_follow_every_answer_are_no_flood(
    peer: RawPeer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keep_alive, "MOST_IDLE_FRAMES", 20)
    client, link = await warmed(peer)
    for start in range(2, 302, 100):
        asked = [post(client) for _ in range(100)]
        await link.request(start + 99)
        for stream_id in range(2 * start - 1, 2 * start + 199, 2):
            link.answer(stream_id)
            link.send(
                WindowUpdateFrame(stream_id, window_increment=8),
                RstStreamFrame(stream_id, error_code=ErrorCode.NO_ERROR),
                PingFrame(0, b"12345678"),
            )
        assert len(await asyncio.gather(*asked)) == 100

    assert len(peer.links) == 1


async def test_settings_that_are_not_acknowledged_end_the_connection(
    peer: RawPeer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keep_alive, "SETTINGS_SECONDS", 0.1)
    peer.silent = True
    asked = post(peer.client(connect_timeout=0.5))
    link = await peer.link()
    link.send(SettingsFrame(0))

    with pytest.raises(ConnectionLostError, match="SETTINGS_TIMEOUT"):
        await asked

    assert (await link.frame(GoAwayFrame)).error_code == ErrorCode.SETTINGS_TIMEOUT


async def test_an_answer_too_large_is_given_up(peer: RawPeer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchanges, "MOST_BODY_BYTES", 100)
    asked = post(peer.client())
    link = await peer.link()
    link.answer(await link.request(), b"x" * 101)

    with pytest.raises(StreamResetError) as failed:
        await asked

    assert failed.value.may_be_processed
    assert await link.reset_code(1) == ErrorCode.CANCEL


async def test_a_closed_client_fails_what_waits_and_closes_its_connections(peer: RawPeer) -> None:
    peer.settings = {Setting.MAX_CONCURRENT_STREAMS: 1}
    client = peer.client()
    sent, waiting = post(client), post(client)
    link = await peer.link()
    await link.request()

    await client.aclose()

    with pytest.raises(ClientClosedError) as failed:
        await sent
    assert failed.value.may_be_processed
    with pytest.raises(ClientClosedError) as failed:
        await waiting
    assert not failed.value.may_be_processed
    await link.end()
    with pytest.raises(ClientClosedError):
        await post(client)


async def test_nobody_listening_is_no_connection() -> None:
    async with RawPeer() as peer:
        client = peer.client()
        assert peer._server is not None
        peer._server.close()

        with pytest.raises(ConnectFailedError) as failed:
            await asyncio.gather(*(post(client) for _ in range(3)))

    assert not failed.value.may_be_processed
