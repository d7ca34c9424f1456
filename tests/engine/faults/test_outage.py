"""The database is away while providers answer: what was sent is settled later and not sent again."""

import asyncio
from collections import Counter
from datetime import timedelta

import asyncpg
import pytest
from structlog.testing import capture_logs

from tests.engine.faults.faulty import FaultyPool, Outage
from tests.engine.stage import Stage, StubProvider
from tests.waiting import found, until
from tocsin.domain.delivery.outcome import Retry
from tocsin.domain.ids import new_lease_id
from tocsin.engine.dispatch.settings import DispatchSettings
from tocsin.engine.settle import writer

LEASE = timedelta(seconds=30)
SENT = 20
"""As many as are in flight at once before a provider has answered."""


async def accept_many(stage: Stage, count: int) -> None:
    names = [f"user{number}" for number in range(count)]
    for name in names:
        await stage.device(name)
    await stage.accept(*names, type="plain", payload={})


@pytest.fixture
def outage(stage: Stage) -> Outage:
    outage = Outage()
    stage.worker_pool = FaultyPool.of(stage.worker_pool, outage)
    return outage


async def all_sent(stage: Stage, count: int) -> None:
    async def look() -> bool:
        return (await stage.states())["sent"] == count

    await found(look)


@pytest.mark.parametrize("leases", [0.5, 1.5, 10])
async def test_an_outage_longer_than_a_lease_repeats_nothing(
    stage: Stage, outage: Outage, leases: float
) -> None:
    provider = StubProvider(concurrency=100)
    await accept_many(stage, SENT)
    provider.hold()
    async with stage.working(provider):
        await until(lambda: len(provider.arrived) == SENT)
        outage.is_away = True
        provider.let_go.set()
        await until(lambda: not provider.at_work)
        stage.clock.advance(leases * LEASE)
        # Long enough for each lane to look for work several times.
        await asyncio.sleep(0.3)
        outage.is_away = False
        await all_sent(stage, SENT)

    assert set(provider.counts().values()) == {1}
    assert {row["attempts"] for row in await stage.pool.fetch("select attempts from deliveries")} == {1}


async def test_a_worker_that_cannot_settle_claims_nothing(
    stage: Stage, outage: Outage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Settling fails while claiming would work: what it claimed could not be settled either."""
    provider = StubProvider(concurrency=100)
    settle, is_broken = writer.SettlementWriter._write, True

    async def failing(self: writer.SettlementWriter, batch: object) -> None:
        if is_broken:
            raise ConnectionResetError
        await settle(self, batch)  # type: ignore[arg-type]

    monkeypatch.setattr(writer.SettlementWriter, "_write", failing)
    monkeypatch.setattr(writer, "LONGEST_PAUSE", 0.05)
    async with stage.working(provider):
        await accept_many(stage, 5)
        await until(lambda: len(provider.arrived) == 5)
        stage.clock.advance(2 * LEASE)
        await asyncio.sleep(0.1)
        await stage.device("late")
        await stage.accept("late", type="plain", payload={}, idempotency_key="late")
        await asyncio.sleep(0.2)
        assert len(provider.arrived) == 5
        is_broken = False
        await all_sent(stage, 6)

    assert set(provider.counts().values()) == {1}
    assert not outage.is_away


async def test_what_another_worker_gave_back_is_settled_by_the_one_that_sent_it(
    stage: Stage, outage: Outage
) -> None:
    provider = StubProvider()
    await accept_many(stage, 1)
    provider.hold()
    async with stage.working(provider):
        await until(lambda: len(provider.arrived) == 1)
        outage.is_away = True
        provider.let_go.set()
        await until(lambda: not provider.at_work)
        await stage.pool.execute(
            "update deliveries set lease = null, leased_until = null, due_at = 'infinity'"
        )
        outage.is_away = False
        await all_sent(stage, 1)


async def test_a_failed_attempt_under_a_lost_lease_is_not_made_again(stage: Stage, outage: Outage) -> None:
    """Its outcome was refused, since another claim had the lease; then this worker takes it over."""
    provider = StubProvider()
    provider.script("user0", Retry("UNAVAILABLE", after=timedelta(hours=1)))
    await accept_many(stage, 1)
    provider.hold()
    async with stage.working(provider):
        await until(lambda: len(provider.arrived) == 1)
        await stage.pool.execute(
            "update deliveries set lease = $1, leased_until = $2", new_lease_id(), stage.clock() + LEASE
        )
        with capture_logs() as logs:
            provider.let_go.set()
            await until(lambda: any(line["event"] == "lease lost" for line in logs))
        stage.clock.advance(LEASE)

        async def recorded() -> list[tuple[str, str]]:
            return await stage.attempts()

        assert await found(recorded) == [("retry", "UNAVAILABLE")]
        assert len(provider.arrived) == 1
        stage.clock.advance(timedelta(hours=2))
        await all_sent(stage, 1)

    assert not outage.is_away
    assert set(provider.counts().values()) == {2}


async def test_what_another_worker_has_meanwhile_is_its_own_to_settle(stage: Stage, outage: Outage) -> None:
    provider = StubProvider()
    await accept_many(stage, 1)
    provider.hold()
    async with stage.working(provider):
        await until(lambda: len(provider.arrived) == 1)
        outage.is_away = True
        provider.let_go.set()
        await until(lambda: not provider.at_work)
        await stage.pool.execute(
            "update deliveries set lease = $1, leased_until = $2", new_lease_id(), stage.clock() + LEASE
        )
        outage.is_away = False
        await asyncio.sleep(0.5)
        assert await stage.states() == Counter(pending=1)
        # The other one died: this worker takes it over, and knows that it was sent.
        stage.clock.advance(LEASE)
        await all_sent(stage, 1)

    assert set(provider.counts().values()) == {1}


async def test_a_worker_that_gives_up_waiting_for_the_database_ends(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its settling is cancelled while a connection breaks, which raises a fault in place of that."""
    provider = StubProvider()
    impatient = DispatchSettings(poll_seconds=0.02, lease_seconds=30.0, stop_seconds=0.3)
    settling = asyncio.Event()

    async def breaking(*_: object) -> None:
        settling.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise asyncpg.InterfaceError("connection is closed") from None

    monkeypatch.setattr(writer.SettlementWriter, "_write", breaking)
    await accept_many(stage, 1)
    async with stage.working(provider, settings=impatient):
        await asyncio.wait_for(settling.wait(), 10)

    assert len(provider.arrived) == 1
