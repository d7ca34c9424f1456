"""Clocks of machines that are wrong, and statements that take their time."""

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engine.stage import QUICK, Stage, StubProvider
from tests.waiting import until
from tocsin.compose import providers, worker
from tocsin.compose.catalog import read_catalog
from tocsin.domain.ids import new_lease_id
from tocsin.engine import clock
from tocsin.engine.clock import DatabaseClock, utc_now
from tocsin.engine.dispatch import lane
from tocsin.settings.load import load_settings
from tocsin.store.deliveries.claim import claim
from tocsin.store.pool import Connection

SECOND = timedelta(seconds=1)
START = datetime(2026, 3, 1, tzinfo=UTC)


class Peer:
    """A database and this machine, whose clocks advance together and have nothing else in common."""

    def __init__(self, booted: float) -> None:
        self.booted = booted
        self.true = 0.0
        self.travel: tuple[float, float] = 0.0, 0.0

    def elapsed(self) -> float:
        return self.booted + self.true

    async def fetchval(self, _: str) -> datetime:
        to, back = self.travel
        self.true += to
        read = START + timedelta(seconds=self.true)
        self.true += back
        return read


seconds = st.floats(0, 60)


@given(st.floats(0, 1e7), st.lists(st.tuples(seconds, seconds, seconds), min_size=1))
def test_the_clock_of_the_database_is_known_within_the_time_of_a_measurement(
    booted: float, measurements: list[tuple[float, float, float]]
) -> None:
    peer = Peer(booted)
    measured = DatabaseClock(None, peer.elapsed)

    async def measure() -> None:
        shortest = float("inf")
        for idle, *travel in measurements:
            peer.true += idle
            peer.travel = travel[0], travel[1]
            connection: Any = peer
            await measured.measure(connection)
            shortest = min(shortest, sum(travel))
            off = measured() - (START + timedelta(seconds=peer.true))
            # The arithmetic of floats adds some microseconds.
            assert abs(off.total_seconds()) <= shortest + 1e-4

    asyncio.run(measure())


async def test_a_clock_that_was_never_measured_is_not_read() -> None:
    with pytest.raises(RuntimeError, match="measured before"):
        DatabaseClock(None)()


@pytest.mark.parametrize("ahead", [65, 120, -120])
async def test_a_worker_whose_machine_has_another_time_takes_nothing_over(
    stage: Stage, database_url: str, monkeypatch: pytest.MonkeyPatch, ahead: int
) -> None:
    """Another worker is sending; its lease counts by the clock of the database."""
    for module in (providers, worker, clock):
        monkeypatch.setattr(module, "utc_now", lambda: utc_now() + ahead * SECOND)
    (leased,) = await stage.deliveries(await stage.accept("ada"))
    lease = new_lease_id()
    await stage.pool.execute(
        "update deliveries set lease = $1, leased_until = clock_timestamp() + interval '30 s'", lease
    )
    quick = {"TOCSIN_DISPATCH__POLL_SECONDS": "0.02", "TOCSIN_QUIET_HOURS__ENABLED": "false"}
    settings = load_settings(quick, Path("/dev/null"))
    stop = asyncio.Event()
    async with worker.open_worker(settings, database_url, read_catalog(settings)) as opened:
        working = asyncio.create_task(opened.run(stop))
        for number in range(3):
            free = await stage.accept("bob", idempotency_key=f"{number}")
            await stage.settled(free, "skipped")
        stop.set()
        await working

    row = await stage.pool.fetchrow("select lease, state from deliveries where id = $1", leased["id"])
    assert tuple(row) == (lease, "pending")


@pytest.mark.parametrize("ahead", [2, 120, -2])
async def test_what_a_host_with_another_time_accepted_is_sent_at_once(stage: Stage, ahead: int) -> None:
    provider = StubProvider()
    await stage.device("ada")
    stage.acceptor = stage.an_acceptor(clock=lambda: stage.clock() + ahead * SECOND)
    async with stage.working(provider):
        await stage.accept("ada", type="plain", payload={})
        await until(lambda: len(provider.arrived) == 1, within=1.5)


async def test_order_is_that_of_acceptance_whatever_the_clocks_of_hosts(stage: Stage) -> None:
    provider = StubProvider()
    await stage.device("ada")
    hosts = [stage.an_acceptor(clock=lambda by=by: stage.clock() + by * SECOND) for by in (2, 0, -2)]  # type: ignore[misc]
    accepted: list[UUID] = []
    for number in range(9):
        stage.acceptor = hosts[number % 3]
        accepted.append(await stage.accept("ada", type="step", payload={}, idempotency_key=f"{number}"))
    async with stage.working(provider):
        await until(lambda: len(provider.arrived) == 9)

    assert [message.notification_id for message in provider.arrived] == accepted


@pytest.mark.parametrize("claim_seconds", [4, 9, 29, 40])
async def test_a_slow_claim_sends_nothing_twice(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, claim_seconds: int
) -> None:
    """The lease counts from the moment the claim was asked for; so does the time left to send under it."""
    slow = [1]
    provider = StubProvider(concurrency=20)
    for number in range(20):
        await stage.device(f"user{number}")

    async def slowly(connection: Connection, *arguments: Any, **named: Any) -> Any:
        claimed = await claim(connection, *arguments, **named)
        if claimed and slow:
            slow.pop()
            stage.clock.advance(claim_seconds * SECOND)
        return claimed

    monkeypatch.setattr(lane, "claim", slowly)
    provider.hold()
    async with stage.working(provider, settings=QUICK), stage.working(provider, settings=QUICK):
        await stage.accept(*(f"user{number}" for number in range(20)), type="plain", payload={})
        await until(lambda: len(provider.arrived) == 20)
        # A send takes less than half of the lease.
        stage.clock.advance(14 * SECOND)
        await asyncio.sleep(0.2)
        provider.let_go.set()
        await until(lambda: not provider.at_work)

    assert set(provider.counts().values()) == {1}
