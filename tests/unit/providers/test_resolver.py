"""Names that never resolve hold up only themselves."""

import asyncio
import threading
from collections.abc import Iterator, Sequence

import pytest

from tests.waiting import until
from tocsin.providers.http import resolver
from tocsin.providers.http.resolver import Resolver, domain_of


class NameServers:
    """Answers at once, but for names that begin with `silent`, until they are released."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.release = threading.Event()

    def __call__(self, host: str) -> Sequence[str]:
        self.asked.append(host)
        if host.startswith("silent"):
            self.release.wait(20)
        if host.startswith("unknown"):
            raise OSError("no such name")
        return ["192.0.2.1"]


@pytest.fixture
def servers() -> Iterator[NameServers]:
    made = NameServers()
    yield made
    made.release.set()


async def answer(lookups: Resolver, host: str) -> Sequence[str]:
    async with asyncio.timeout(10):
        return await lookups.lookup(host)


async def test_the_names_of_one_domain_hold_few_threads(servers: NameServers) -> None:
    lookups = Resolver(servers, threads=8, per_domain=2, kept_for_fast=0)
    silent = [asyncio.create_task(lookups.lookup(f"silent{n}.example.com")) for n in range(100)]
    await until(lambda: len(servers.asked) == 2)

    assert await answer(lookups, "hooks.example.org") == ["192.0.2.1"]
    assert len(servers.asked) == 3

    servers.release.set()
    assert await asyncio.gather(*silent) == [["192.0.2.1"]] * 100


async def test_domains_that_were_fast_are_resolved_while_new_ones_are_silent(servers: NameServers) -> None:
    lookups = Resolver(servers, threads=8, per_domain=2, slow=8, kept_for_fast=2)
    await answer(lookups, "hooks.example.org")
    silent = [asyncio.create_task(lookups.lookup(f"silent.example{n}.com")) for n in range(100)]
    await until(lambda: len(servers.asked) == 7)

    assert await answer(lookups, "other.example.org") == ["192.0.2.1"]
    assert len(servers.asked) == 8

    for each in silent:
        each.cancel()
    await asyncio.wait(silent)


async def test_domains_that_were_slow_share_a_part_of_the_threads(
    servers: NameServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    lookups = Resolver(servers, threads=8, slow=2, kept_for_fast=0)
    with monkeypatch.context() as everything_is_slow:
        everything_is_slow.setattr(resolver, "SLOW_SECONDS", 0.0)
        await asyncio.gather(*(answer(lookups, f"was.example{n}.com") for n in range(5)))
    silent = [asyncio.create_task(lookups.lookup(f"silent.example{n}.com")) for n in range(5)]
    await until(lambda: len(servers.asked) == 7)

    assert await answer(lookups, "hooks.example.org") == ["192.0.2.1"]
    assert len(servers.asked) == 8

    servers.release.set()
    await asyncio.gather(*silent)


async def test_a_name_that_nobody_waits_for_any_more_is_not_resolved(servers: NameServers) -> None:
    lookups = Resolver(servers, threads=1, kept_for_fast=0)
    running = asyncio.create_task(lookups.lookup("silent.example.com"))
    shared = asyncio.create_task(lookups.lookup("silent.example.com"))
    abandoned = [asyncio.create_task(lookups.lookup(f"late{n}.example.org")) for n in range(3)]
    waiting = asyncio.create_task(lookups.lookup("late0.example.org"))
    await until(lambda: servers.asked == ["silent.example.com"])
    for each in (running, *abandoned):
        each.cancel()
    await asyncio.wait([running, *abandoned])

    servers.release.set()

    assert await waiting == await shared == ["192.0.2.1"]
    assert servers.asked == ["silent.example.com", "late0.example.org"]


async def test_what_a_lookup_raises_is_raised_to_all_and_leaves_its_thread_free(servers: NameServers) -> None:
    lookups = Resolver(servers, threads=1, kept_for_fast=0)
    failed = await asyncio.gather(
        *(lookups.lookup("unknown.example.com") for _ in range(3)), return_exceptions=True
    )

    assert [str(error) for error in failed] == ["no such name"] * 3
    assert await answer(lookups, "hooks.example.org") == ["192.0.2.1"]


@pytest.mark.parametrize(
    ("host", "domain"),
    [
        ("a.b.example.com", "example.com"),
        ("Example.COM", "example.com"),
        ("a.example.co.uk", "example.co.uk"),
        ("example.co.uk", "example.co.uk"),
        ("a.example.de", "example.de"),
        ("localhost", "localhost"),
        ("de", "de"),
    ],
)
def test_the_domain_of_a_name(host: str, domain: str) -> None:
    assert domain_of(host) == domain
