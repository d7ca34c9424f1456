import asyncio
import gzip
import socket
import threading
import time
from collections import Counter
from collections.abc import Sequence
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

import pytest
from pyreqwest.exceptions import ConnectError

from tests.providers.http.guarded_rig import Names, serving
from tests.waiting import until
from tocsin.domain.errors import ProviderSetupError
from tocsin.providers.http import pinned_hosts
from tocsin.providers.http.guarded_client import GuardedConnections
from tocsin.providers.http.ssrf_guard import Guard, HostRefusedError, HostUnknownError
from tocsin.providers.settings import HttpProviderSettings


def connections(guard: Guard, ca_file: Path | None) -> GuardedConnections:
    settings = HttpProviderSettings(max_concurrency=10, connect_timeout=2.0, timeout=5.0, ca_file=ca_file)
    return GuardedConnections(guard, settings)


async def call(connected: GuardedConnections, url: str) -> int:
    client = await connected.client_for(url)
    return (await client.get(url).build().send()).status


async def test_the_connection_goes_to_the_address_that_was_judged(tmp_path: Path) -> None:
    async with serving(tmp_path) as server:
        # The name is known to this resolver alone: the client cannot have asked another one.
        names = Names("127.0.0.1")
        connected = connections(Guard(allow_private=True, lookup=names), server.ca_file)

        assert await call(connected, f"https://push.example.com:{server.port}/a") == 204
        assert await call(connected, f"https://push.example.com:{server.port}/b") == 204

        assert (names.asked, server.served) == (1, 2)
        await connected.aclose()


async def test_a_name_that_turns_private_after_it_was_judged_reaches_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(tmp_path) as server:
        # 127.0.0.2 plays the public address, where nobody listens; 127.0.0.1 is the private one.
        monkeypatch.setattr("tocsin.providers.http.ssrf_guard._FORBIDDEN_V4", (IPv4Network("127.0.0.1"),))
        names = Names("127.0.0.2", "127.0.0.1")
        connected = connections(Guard(lookup=names), server.ca_file)
        url = f"https://push.example.com:{server.port}/"

        with pytest.raises(ConnectError):
            await call(connected, url)
        connected.connection_failed(url)
        with pytest.raises(HostRefusedError):
            await call(connected, url)

        assert server.served == 0
        await connected.aclose()


async def test_an_address_is_asked_for_again_after_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pinned_hosts, "ADDRESS_SECONDS", 0.0)
    async with serving(tmp_path) as server:
        names = Names("127.0.0.1", "127.0.0.1", "127.0.0.2")
        connected = connections(Guard(allow_private=True, lookup=names), server.ca_file)
        url = f"https://push.example.com:{server.port}/"

        first = await connected.client_for(url)
        assert await connected.client_for(url) is first
        moved = await connected.client_for(url)

        assert moved is not first
        assert names.asked == 3
        await connected.aclose()


async def test_after_a_failed_connection_another_address_is_tried(tmp_path: Path) -> None:
    async with serving(tmp_path, "127.0.0.2") as server:
        names = Names("127.0.0.1 127.0.0.2")
        connected = connections(Guard(allow_private=True, lookup=names), server.ca_file)
        url = f"https://push.example.com:{server.port}/"

        with pytest.raises(ConnectError):
            await call(connected, url)
        connected.connection_failed(url)

        assert await call(connected, url) == 204
        await connected.aclose()


async def test_a_name_is_looked_up_once_for_all_who_wait() -> None:
    names = Names("127.0.0.1")
    connected = connections(Guard(allow_private=True, lookup=names), None)

    clients = await asyncio.gather(*(connected.client_for("https://push.example.com/") for _ in range(20)))

    assert names.asked == 1
    assert len(set(map(id, clients))) == 1
    await connected.aclose()


async def test_a_name_that_takes_long_holds_no_other_up() -> None:
    async def lookup(host: str) -> Sequence[str]:
        if host.startswith("slow"):
            await asyncio.Event().wait()
        return ["127.0.0.1"]

    connected = connections(Guard(allow_private=True, lookup=lookup), None)
    slow = [
        asyncio.create_task(connected.client_for(f"https://slow{number}.example.com/"))
        for number in range(200)
    ]
    async with asyncio.timeout(1):
        await connected.client_for("https://push.example.com/")

    for each in slow:
        each.cancel()
    await asyncio.wait(slow)
    await connected.aclose()


async def test_the_address_in_use_is_kept_while_the_resolver_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pinned_hosts, "ADDRESS_SECONDS", 0.0)
    connected = connections(Guard(allow_private=True, lookup=Names("127.0.0.1", "")), None)
    url = "https://push.example.com/"

    first = await connected.client_for(url)
    assert await connected.client_for(url) is first
    connected.connection_failed(url)
    with pytest.raises(HostUnknownError):
        await connected.client_for(url)
    await connected.aclose()


async def test_the_longest_unused_host_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pinned_hosts, "MOST_HOSTS", 2)
    names = Names("127.0.0.1")
    connected = connections(Guard(allow_private=True, lookup=names), None)

    for host in ("a", "b", "a", "c", "a", "b"):
        await connected.client_for(f"https://{host}.example.com/")

    assert names.asked == 4
    await connected.aclose()


async def test_a_resolver_that_does_not_answer_is_given_up() -> None:
    async def never(_: str) -> Sequence[str]:
        await asyncio.Event().wait()
        return []

    connected = GuardedConnections(
        Guard(lookup=never), HttpProviderSettings(max_concurrency=1, connect_timeout=0.05, timeout=1.0)
    )
    with pytest.raises(TimeoutError):
        await connected.client_for("https://push.example.com/")


async def test_names_that_hang_in_the_resolver_hold_no_other_up(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: Counter[str] = Counter()
    answer = threading.Event()

    def getaddrinfo(host: str, *_: Any, **__: Any) -> list[Any]:
        asked[host] += 1
        if host.startswith("slow"):
            answer.wait(20)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("93.184.216.34", 0))]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    guarded = GuardedConnections(Guard(), HttpProviderSettings(max_concurrency=1, connect_timeout=1.0))
    hanging = [f"https://slow{number % 40}.example.com/" for number in range(200)]
    try:
        for _ in range(2):
            started = time.monotonic()
            waiting = asyncio.gather(*map(guarded.client_for, hanging), return_exceptions=True)
            await until(lambda: len(asked) >= 40)
            async with asyncio.timeout(5):
                await guarded.client_for(f"https://quick{len(asked)}.example.com/")
            assert {type(outcome) for outcome in await waiting} == {TimeoutError}
            assert time.monotonic() - started < 5
    finally:
        answer.set()
        await guarded.aclose()

    assert {times for host, times in asked.items() if host.endswith(".example.com")} == {1}


async def test_a_refused_url_has_no_client() -> None:
    with pytest.raises(HostRefusedError, match="private"):
        await connections(Guard(), None).client_for("https://2130706433/")


async def test_a_proxy_of_the_environment_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")
    async with serving(tmp_path) as server:
        connected = connections(Guard(allow_private=True, lookup=Names("127.0.0.1")), server.ca_file)

        assert await call(connected, f"https://push.example.com:{server.port}/") == 204
        await connected.aclose()


def test_a_ca_file_that_cannot_be_read_stops_the_start(tmp_path: Path) -> None:
    with pytest.raises(ProviderSetupError, match=r"ca\.pem"):
        connections(Guard(), tmp_path / "ca.pem")


async def test_a_post_brings_back_the_answer(tmp_path: Path) -> None:
    async with serving(tmp_path) as server:
        connected = connections(Guard(allow_private=True, lookup=Names("127.0.0.1")), server.ca_file)

        reply = await connected.post(f"https://push.example.com:{server.port}/", {"ttl": "60"}, b"")

        assert (reply.status, reply.body) == (204, b"")
        await connected.aclose()


async def test_an_answer_without_end_is_left_after_its_beginning(tmp_path: Path) -> None:
    async with serving(tmp_path) as server:
        server.reply = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 1000000000\r\n\r\n" + b"x" * 100_000
        connected = connections(Guard(allow_private=True, lookup=Names("127.0.0.1")), server.ca_file)

        reply = await connected.post(f"https://push.example.com:{server.port}/", {}, b"")

        assert (reply.status, reply.body) == (400, b"x" * 4_096)
        await connected.aclose()


async def test_an_answer_is_not_unpacked(tmp_path: Path) -> None:
    packed = gzip.compress(b"x" * 1_000_000)
    head = f"HTTP/1.1 400 Bad Request\r\nContent-Encoding: gzip\r\nContent-Length: {len(packed)}\r\n\r\n"
    async with serving(tmp_path) as server:
        server.reply = head.encode() + packed
        connected = connections(Guard(allow_private=True, lookup=Names("127.0.0.1")), server.ca_file)

        reply = await connected.post(f"https://push.example.com:{server.port}/", {}, b"")

        assert reply.body == packed
        await connected.aclose()


async def test_a_failed_post_tries_another_address_next(tmp_path: Path) -> None:
    async with serving(tmp_path, "127.0.0.2") as server:
        names = Names("127.0.0.1 127.0.0.2")
        connected = connections(Guard(allow_private=True, lookup=names), server.ca_file)
        url = f"https://push.example.com:{server.port}/"

        with pytest.raises(ConnectError):
            await connected.post(url, {}, b"")

        assert (await connected.post(url, {}, b"")).status == 204
        await connected.aclose()


async def test_an_untimely_answer_is_given_up(tmp_path: Path) -> None:
    async with serving(tmp_path) as server:
        server.reply = b""
        connected = GuardedConnections(
            Guard(allow_private=True, lookup=Names("127.0.0.1")),
            HttpProviderSettings(max_concurrency=1, connect_timeout=1.0, timeout=0.1, ca_file=server.ca_file),
        )

        with pytest.raises(TimeoutError):
            await connected.post(f"https://push.example.com:{server.port}/", {}, b"")
        await connected.aclose()
