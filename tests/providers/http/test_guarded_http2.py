"""HTTP/2 to hosts of strangers: at an address that was checked, bounded, with another client if need be."""

import asyncio
from collections.abc import AsyncIterator
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

import pytest

from tests.providers.http.guarded_rig import Names, serving, write_certificates
from tests.providers.http.http2_peer import CannedAnswer, Http2Peer
from tests.waiting import until
from tocsin.domain.errors import ProviderSetupError
from tocsin.providers.http import guarded_http2, pinned_hosts
from tocsin.providers.http.guarded_http2 import GuardedHttp2
from tocsin.providers.http.h2 import pool
from tocsin.providers.http.h2.errors import ConnectFailedError, RequestTimeoutError
from tocsin.providers.http.ssrf_guard import Guard, HostRefusedError, HostUnknownError
from tocsin.providers.settings import ManyHostsSettings

NAME = "push.example.com"


@pytest.fixture
async def peer(tmp_path: Path) -> AsyncIterator[Http2Peer]:
    write_certificates(tmp_path)
    async with Http2Peer(tmp_path, lambda _: CannedAnswer(201)) as running:
        yield running


def guarded(folder: Path, guard: Guard | None = None, **settings: Any) -> GuardedHttp2:
    chosen: dict[str, Any] = {"connect_timeout": 2.0, "timeout": 5.0, "ca_file": folder / "ca.pem"}
    guard = guard or Guard(allow_private=True, lookup=Names("127.0.0.1"))
    return GuardedHttp2(guard, ManyHostsSettings(**chosen | settings))


def url_of(peer: Http2Peer, path: str = "/s") -> str:
    return peer.url.replace("127.0.0.1", NAME) + path


async def test_the_connection_goes_to_the_address_that_was_judged(peer: Http2Peer, tmp_path: Path) -> None:
    # The name is known to this resolver alone: the client cannot have asked another one.
    names = Names("127.0.0.1")
    connected = guarded(tmp_path, Guard(allow_private=True, lookup=names))

    replies = [await connected.post(url_of(peer), {"ttl": "60"}, b"x") for _ in range(3)]

    assert [reply.status for reply in replies] == [201] * 3
    assert (names.asked, peer.connections) == (1, 1)
    assert peer.heads[0][":authority"] == url_of(peer, "").removeprefix("https://")
    assert peer.heads[0]["ttl"] == "60"
    await connected.aclose()


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ("/s/abc?a=1&b=%20#part", "/s/abc?a=1&b=%20"),
        ("", "/"),
        ("/a/../b c/ü", "/b%20c/%C3%BC"),
        ("/x?", "/x"),
    ],
)
async def test_the_path_is_that_of_the_url_as_the_guard_reads_it(
    peer: Http2Peer, tmp_path: Path, given: str, sent: str
) -> None:
    connected = guarded(tmp_path)

    await connected.post(url_of(peer, given), {}, b"x")

    assert peer.heads[0][":path"] == sent
    await connected.aclose()


async def test_a_name_that_turns_private_after_it_was_judged_reaches_nothing(
    peer: Http2Peer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # 127.0.0.2 plays the public address, where nobody listens; 127.0.0.1 is the private one.
    monkeypatch.setattr("tocsin.providers.http.ssrf_guard._FORBIDDEN_V4", (IPv4Network("127.0.0.1"),))
    connected = guarded(tmp_path, Guard(lookup=Names("127.0.0.2", "127.0.0.1")))

    with pytest.raises(ConnectFailedError):
        await connected.post(url_of(peer), {}, b"x")
    with pytest.raises(HostRefusedError):
        await connected.post(url_of(peer), {}, b"x")

    assert peer.connections == 0
    await connected.aclose()


async def test_after_a_failed_connection_another_address_is_tried(peer: Http2Peer, tmp_path: Path) -> None:
    names = Names("127.0.0.2 127.0.0.1")
    connected = guarded(tmp_path, Guard(allow_private=True, lookup=names))

    with pytest.raises(ConnectFailedError) as failed:
        await connected.post(url_of(peer), {}, b"x")

    assert not failed.value.may_be_processed
    assert (await connected.post(url_of(peer), {}, b"x")).status == 201
    await connected.aclose()


async def test_after_failed_connections_every_address_gets_its_turn(peer: Http2Peer, tmp_path: Path) -> None:
    names = Names("127.0.0.2 127.0.0.3 127.0.0.1")
    connected = guarded(tmp_path, Guard(allow_private=True, lookup=names))

    for _ in range(2):
        with pytest.raises(ConnectFailedError):
            await connected.post(url_of(peer), {}, b"x")

    assert (await connected.post(url_of(peer), {}, b"x")).status == 201
    await connected.aclose()


async def test_what_may_not_be_called_is_refused(tmp_path: Path) -> None:
    write_certificates(tmp_path)
    connected = guarded(tmp_path, Guard(lookup=Names()))

    with pytest.raises(HostRefusedError, match="private"):
        await connected.post("https://2130706433/", {}, b"x")
    with pytest.raises(HostUnknownError):
        await connected.post("https://push.example.com/", {}, b"x")
    await connected.aclose()


async def test_a_proxy_of_the_environment_is_not_used(
    peer: Http2Peer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")
    connected = guarded(tmp_path)

    assert (await connected.post(url_of(peer), {}, b"x")).status == 201
    await connected.aclose()


async def test_a_host_without_http2_is_called_by_the_other_client_from_then_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guarded_http2, "MOST_WITHOUT_HTTP2", 1)
    async with serving(tmp_path) as server:
        connected = guarded(tmp_path)
        url = f"https://{NAME}:{server.port}/s"

        replies = [await connected.post(url, {"ttl": "60"}, b"") for _ in range(3)]

        assert [reply.status for reply in replies] == [204] * 3
        # One offered HTTP/2 in vain, the other took all requests; the preface was no request.
        assert server.connections == 2
        await connected.post(f"https://127.0.0.1:{server.port}/s", {}, b"")
        assert list(connected._without_http2) == [f"https://127.0.0.1:{server.port}"]
        await connected.aclose()


async def test_an_answer_without_end_is_left_after_its_beginning(peer: Http2Peer, tmp_path: Path) -> None:
    peer.answer = lambda _: CannedAnswer(400, (), b"x" * 60_000)
    connected = guarded(tmp_path)

    replies = await asyncio.gather(*(connected.post(url_of(peer), {}, b"x") for _ in range(5)))

    assert [(reply.status, reply.body) for reply in replies] == [(400, b"x" * 4_096)] * 5
    peer.answer = lambda _: CannedAnswer(400, (), b"x" * 4_095)
    assert (await connected.post(url_of(peer), {}, b"x")).body == b"x" * 4_095
    assert peer.connections == 1
    await connected.aclose()


async def test_an_untimely_answer_is_given_up(peer: Http2Peer, tmp_path: Path) -> None:
    connected = guarded(tmp_path, timeout=0.3)
    assert (await connected.post(url_of(peer), {}, b"x")).status == 201
    peer.goaway_after(2, finish=True)

    with pytest.raises(RequestTimeoutError) as failed:
        await connected.post(url_of(peer), {}, b"x")

    assert failed.value.may_be_processed
    await connected.aclose()


async def test_an_idle_connection_is_closed(
    peer: Http2Peer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "IDLE_SECONDS", 0.05)
    connected = guarded(tmp_path, timeout=0.5)
    await connected.post(url_of(peer), {}, b"x")

    await until(lambda: not peer._open)

    assert (await connected.post(url_of(peer), {}, b"x")).status == 201
    assert peer.connections == 2
    await connected.aclose()


async def test_the_longest_unused_host_is_left_once_its_answers_came(
    peer: Http2Peer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pinned_hosts, "MOST_HOSTS", 1)
    connected = guarded(tmp_path)
    peer.goaway_after(2, finish=True)
    waiting = asyncio.create_task(connected.post(url_of(peer), {}, b"x"))
    await until(lambda: len(peer.heads) == 1)

    # Another origin for the same peer, which now answers both.
    other = await connected.post(f"{peer.url}/s", {}, b"x")

    assert ((await waiting).status, other.status) == (201, 201)
    await until(lambda: not peer._open)
    await connected.aclose()


async def test_an_address_that_changed_is_used_and_the_old_one_left(
    peer: Http2Peer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pinned_hosts, "ADDRESS_SECONDS", 0.0)
    connected = guarded(tmp_path, Guard(allow_private=True, lookup=Names("127.0.0.1", "127.0.0.2")))
    assert (await connected.post(url_of(peer), {}, b"x")).status == 201

    with pytest.raises(ConnectFailedError):
        await connected.post(url_of(peer), {}, b"x")

    await until(lambda: not peer._open)
    await connected.aclose()


def test_a_ca_file_that_cannot_be_read_stops_the_start(tmp_path: Path) -> None:
    with pytest.raises(ProviderSetupError, match=r"ca\.pem"):
        guarded(tmp_path)
