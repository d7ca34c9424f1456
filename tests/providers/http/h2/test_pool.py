"""Connections come and go with demand."""

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest
import structlog
from hyperframe.frame import GoAwayFrame, HeadersFrame, SettingsFrame

from tests.providers.http.h2.raw_peer import Link, RawPeer, post, warmed
from tests.waiting import until
from tocsin.http2.errors import ErrorCode
from tocsin.http2.frames import Setting
from tocsin.providers.http.h2 import pool
from tocsin.providers.http.h2.connection import Connection
from tocsin.providers.http.h2.errors import ConnectFailedError, RequestTimeoutError


@pytest.fixture
async def peer() -> AsyncIterator[RawPeer]:
    async with RawPeer() as opened:
        yield opened


@pytest.fixture(autouse=True)
def _few_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "STREAMS_PER_CONNECTION", 2)


def requests(link: Link) -> list[int]:
    return [each.stream_id for each in link.frames if isinstance(each, HeadersFrame)]


def answer_all(*links: Link) -> None:
    for link in links:
        for stream_id in requests(link):
            link.answer(stream_id)


async def test_as_many_connections_as_the_requests_need_and_no_more_than_allowed(peer: RawPeer) -> None:
    client = peer.client(concurrency=150)
    client._pool._most = 3

    asked = [post(client) for _ in range(4)]
    await until(lambda: client.connections == 2)
    asked += [post(client) for _ in range(20)]
    await until(lambda: sum(len(requests(link)) for link in peer.links) == 24 and client.connections == 3)

    assert len(peer.links) == 3
    answer_all(*peer.links)
    assert len(await asyncio.gather(*asked)) == 24


async def test_a_request_goes_to_the_connection_with_the_fewest(peer: RawPeer) -> None:
    client = peer.client()
    client._pool._most = 2
    asked = [post(client) for _ in range(4)]
    await until(lambda: client.connections == 2)
    first, second = peer.links
    await until(lambda: len(requests(first)) + len(requests(second)) == 4)
    answer_all(second)
    await until(lambda: not client._pool._connections[1].streams)
    busy, idle = client._pool._connections

    more = [post(client) for _ in range(len(busy.streams))]

    assert len(idle.streams) == len(busy.streams)
    await until(lambda: len(requests(first)) + len(requests(second)) == 4 + len(more))
    for connection, link in ((busy, first), (idle, second)):
        for stream_id in list(connection.streams):
            link.answer(stream_id)
    assert len(await asyncio.gather(*asked, *more)) == 4 + len(more)


async def test_idle_connections_are_closed_but_for_the_last(
    peer: RawPeer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "IDLE_SECONDS", 0.1)
    client = peer.client(timeout=1.0)
    client._pool._most = 3
    asked = [post(client) for _ in range(6)]
    await until(lambda: sum(len(requests(link)) for link in peer.links) == 6 and client.connections == 3)
    answer_all(*peer.links)
    await asyncio.gather(*asked)

    await until(lambda: client.connections == 1 and [link.ended for link in peer.links].count(False) == 1)
    (left,) = [link for link in peer.links if not link.ended]
    before = len(requests(left))
    again = post(client)
    left.answer(await left.request(before + 1))
    assert (await again).status == 200


async def test_after_leave_each_connection_closes_as_soon_as_it_is_idle(peer: RawPeer) -> None:
    client = peer.client(timeout=1.0)
    client._pool._most = 2
    asked = [post(client) for _ in range(4)]
    await until(lambda: sum(len(requests(link)) for link in peer.links) == 4 and client.connections == 2)
    busy, idle = peer.links
    answer_all(idle)
    await until(lambda: sum(each.done() for each in asked) == len(requests(idle)))

    client.leave()

    await idle.end()
    assert not busy.ended
    answer_all(busy)
    assert {reply.status for reply in await asyncio.gather(*asked)} == {200}
    await busy.end()
    await until(lambda: client.connections == 0 and client._pool._timer is None)


async def test_an_old_connection_is_replaced_without_a_request_being_lost(
    peer: RawPeer, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = peer.client(timeout=2.0)
    client._pool._most = 1
    asked = [post(client) for _ in range(3)]
    first = await peer.link()
    await first.request(3)
    monkeypatch.setattr(pool, "ROTATE_SECONDS", 0.2)

    second = await peer.link(2)
    await until(lambda: client._pool._connections[0].retired)
    asked.append(post(client))
    second.answer(await second.request())
    monkeypatch.setattr(pool, "ROTATE_SECONDS", 1_000.0)
    answer_all(first)

    assert len(await asyncio.gather(*asked)) == 4
    assert len(requests(first)) == 3
    assert (await first.frame(GoAwayFrame)).error_code == ErrorCode.NO_ERROR
    await first.end()


async def test_those_that_there_are_do_if_no_other_can_be_opened(peer: RawPeer) -> None:
    peer.settings = {Setting.MAX_CONCURRENT_STREAMS: 2}
    client, link = await warmed(peer)
    client._pool._most = 5
    assert peer._server is not None
    peer._server.close()

    with structlog.testing.capture_logs() as lines:
        asked = [post(client) for _ in range(6)]
        await link.request(3)
        await until(lambda: any(line["event"] == "connection not added" for line in lines))
        for number in range(2, 8):
            link.answer(await link.request(number))
        assert len(await asyncio.gather(*asked)) == 6

    assert client._pool._open_from > asyncio.get_running_loop().time()


async def test_a_peer_that_asks_for_calm_gets_no_further_connection_at_once(peer: RawPeer) -> None:
    client = peer.client()
    client._pool._most = 5
    first_asked = post(client)
    link = await peer.link()
    await link.request()
    link.send(GoAwayFrame(0, last_stream_id=1, error_code=ErrorCode.ENHANCE_YOUR_CALM))
    link.answer(1)
    await first_asked

    asked = [post(client) for _ in range(6)]
    other = await peer.link(2)
    await other.request(6)
    answer_all(other)

    assert len(await asyncio.gather(*asked)) == 6
    assert len(peer.links) == 2


async def test_an_old_connection_that_cannot_be_replaced_is_not_tried_again_at_once(
    peer: RawPeer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "ROTATE_SECONDS", 0.0)
    client = peer.client(timeout=1.0)
    dials: list[object] = []
    dial = client._pool._dial

    async def refused_later(build: Callable[[], Connection]) -> Connection:
        dials.append(build)
        if len(dials) > 1:
            raise ConnectFailedError("no more")
        return await dial(build)

    client._pool._dial = refused_later

    with structlog.testing.capture_logs() as lines, pytest.raises(RequestTimeoutError):
        await post(client)

    assert len(dials) == 2
    assert [line["event"] for line in lines] == ["connection not added"]


async def test_what_waits_does_not_wait_for_the_last_answer_of_a_peer_that_leaves(peer: RawPeer) -> None:
    """It had no room for the second request, and nobody else asks for a connection."""
    peer.settings = {Setting.MAX_CONCURRENT_STREAMS: 1}
    client = peer.client()
    client._pool._most = 1
    first_asked = post(client)
    link = await peer.link()
    await link.request()
    asked = post(client)

    link.send(GoAwayFrame(0, last_stream_id=1))
    other = await peer.link(2)
    other.answer(await other.request())

    assert (await asked).status == 200
    assert not first_asked.done()
    link.answer(1)
    assert (await first_asked).status == 200
    await link.end()


async def test_a_peer_that_allows_more_after_its_first_settings_gets_no_further_connections(
    peer: RawPeer,
) -> None:
    """Apple allows a single stream until it has seen a good token."""
    peer.settings = {Setting.MAX_CONCURRENT_STREAMS: 1}
    client, link = await warmed(peer)
    client._pool._most = 3
    link.send(SettingsFrame(0, settings={Setting.MAX_CONCURRENT_STREAMS: 1_000}))
    await until(lambda: client._pool._connections[0].limit == 1_000)

    asked = [post(client) for _ in range(2)]
    await link.request(3)

    assert not client._pool._opening
    assert client.connections == 1
    for stream_id in (3, 5):
        link.answer(stream_id)
    assert len(await asyncio.gather(*asked)) == 2


async def test_a_connection_that_fails_in_an_unexpected_way_keeps_nobody_waiting(peer: RawPeer) -> None:
    client = peer.client()

    async def broken(_: object) -> None:
        raise ZeroDivisionError

    client._pool._dial = broken  # type: ignore[assignment]

    with (
        structlog.testing.capture_logs() as lines,
        pytest.raises(Exception, match="ZeroDivisionError") as failed,
    ):
        await post(client)

    assert not failed.value.may_be_processed  # type: ignore[attr-defined]
    assert [line["event"] for line in lines] == ["connection failed"]


async def test_several_connections_that_fail_at_once_keep_nobody_waiting(peer: RawPeer) -> None:
    client = peer.client()
    client._pool._most = 3
    assert peer._server is not None
    peer._server.close()

    failed = await asyncio.gather(*(post(client) for _ in range(6)), return_exceptions=True)

    assert [type(error) for error in failed] == [ConnectFailedError] * 6


async def test_a_peer_that_leaves_at_once_keeps_nobody_waiting(peer: RawPeer) -> None:
    peer.silent = True
    client = peer.client()
    asked = post(client)
    link = await peer.link()
    link.send(SettingsFrame(0), SettingsFrame(0, flags=["ACK"]), GoAwayFrame(0, last_stream_id=0))
    link.close()

    with pytest.raises(ConnectFailedError):
        await asked

    assert client.connections == 0
    peer.silent = False
    asked = post(client)
    other = await peer.link(2)
    other.answer(await other.request())
    assert (await asked).status == 200


async def test_a_slow_reader_gets_no_more_than_the_transport_takes(peer: RawPeer) -> None:
    client, link = await warmed(peer, timeout=0.5)
    client._pool._most = 1
    connection = client._pool._connections[0]
    connection.pause_writing()

    with pytest.raises(RequestTimeoutError) as failed:
        await post(client)

    assert not failed.value.may_be_processed
    asked = post(client)
    connection.resume_writing()
    link.answer(await link.request(2))
    assert (await asked).status == 200
    assert len(requests(link)) == 2
