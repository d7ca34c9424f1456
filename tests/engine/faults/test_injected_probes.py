"""A fault at every await of a probe, one at a time: the circuit breaker still closes, and nothing is lost."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import pytest

from tests.engine.faults.faulty import FaultyPool
from tests.engine.faults.test_injected import (
    MOMENTS,
    Injector,
    Kind,
    Moment,
    Point,
    WiredProvider,
    providers_of,
    rows_of,
    unfinished,
)
from tests.engine.stage import Stage, an_intent
from tests.waiting import found, until
from tocsin.domain.delivery.message import Provider
from tocsin.engine.accept.answers import Accepted
from tocsin.engine.health import circuit_breakers
from tocsin.engine.health.circuit_breakers import PROBE_WITHIN
from tocsin.engine.worker import Worker
from tocsin.store.pool import Pool

TRIES = 3
"""A claim that began before the circuit breaker opened takes the messages without a probe."""
STANDSTILL = 0.3
"""For how long nothing may change before the clock is moved until a probe that nobody has any more lapses."""
PERMISSION = ("any_due", "take_probe", "return_probe")
"""What is awaited before and after a probe: its claim is one like any other, and fails in other tests."""
HOST = "shop.example"
CIRCUITS = {"push": "fcm", "webhook": f"webhook/{HOST}"}
TYPES = {"push": "plain", "webhook": "hook_only"}
CATEGORIES = {"push": "plain_news", "webhook": "alerts"}

REFUSE = """
insert into preferences (user_id, choices, updated_at)
values ($1, jsonb_build_object($2::text, jsonb_build_object($3::text, false)), now())
"""

OPEN = """
insert into circuits (name, provider, state, code, detail, openings, changed_at, retry_at)
values ($1, $2, 'open', 'DOWN', '', 1, $3, $3)
on conflict (name) do update set state = 'open', retry_at = $3, probe_until = null
"""


CLOSED = "select state = 'closed' from circuits where name = $1"


class HostsProvider(WiredProvider):
    """Calls one host for all targets, which has a circuit breaker of its own."""

    name = "webhook"
    concurrency_per_host = 10

    def host_of(self, target: str) -> str:
        return target.split("/")[2]


def a_provider(channel: str, injector: Injector) -> Provider:
    if channel == "push":
        return providers_of(channel, injector)[0]
    provider = HostsProvider()
    provider.injector = injector
    return provider


@asynccontextmanager
async def working(stage: Stage, channel: str, pool: Pool, injector: Injector) -> AsyncIterator[Worker]:
    stage.worker_pool = FaultyPool.of(pool, injector)
    worker = await stage.a_worker(a_provider(channel, injector))
    stop = asyncio.Event()
    running = asyncio.create_task(worker.run(stop))
    try:
        yield worker
    finally:
        stop.set()
        await running


async def accept(stage: Stage, channel: str, worker: Worker, who: str) -> list[UUID]:
    """Accept messages once the worker has seen that the circuit breaker is open; the first one is skipped.

    A push that is skipped comes alone, so that nothing is left to probe with and the permission is returned.
    """
    people = [f"{who}-{number}" for number in range(3)]
    for person in people:
        place = {"provider": "webhook", "token": f"https://{HOST}/{person}"} if channel == "webhook" else {}
        await stage.device(person, **place)
    await stage.pool.execute(REFUSE, people[0], CATEGORIES[channel], channel)
    circuit = CIRCUITS[channel]
    await stage.pool.execute(OPEN, circuit, circuit.partition("/")[0], stage.clock())
    await until(lambda: not worker._breakers.is_closed(circuit))
    intents = [
        an_intent(person, type=TYPES[channel], payload={}, idempotency_key=person) for person in people
    ]
    acceptor = stage.an_acceptor({"push": ("fcm",), "webhook": ("webhook",)})
    notifications: list[UUID] = []
    for some in (intents[:1], intents[1:]) if channel == "push" else (intents,):
        await end(stage, notifications)
        answers = await acceptor.accept("shop", some)
        notifications += [each.notification_id for each in answers if isinstance(each, Accepted)]
    return notifications


async def end(stage: Stage, notifications: Sequence[UUID]) -> list[Mapping[str, Any]]:
    """Wait until all of it has ended; if nothing moves any more, for one probe and no longer."""
    loop = asyncio.get_running_loop()
    before: Any = None
    changed_at, is_waited = loop.time(), False

    async def look() -> list[Mapping[str, Any]]:
        nonlocal before, changed_at, is_waited
        rows = await rows_of(stage, notifications)
        now = sorted((row["id"], row["state"], str(row["lease"]), str(row["due_at"])) for row in rows)
        if now != before:
            before, changed_at = now, loop.time()
        if not is_waited and loop.time() - changed_at > STANDSTILL:
            is_waited = True
            stage.clock.advance(PROBE_WITHIN)
        return rows if all(row["settled_at"] for row in rows) else []

    return await found(look, within=15) if notifications else []


async def probing_points(stage: Stage, channel: str, pool: Pool) -> list[Point]:
    """List the awaits for the permission to probe in a run in which nothing fails."""
    injector = Injector("disconnect")
    async with working(stage, channel, pool, injector) as worker:
        await end(stage, await accept(stage, channel, worker, f"{channel}-first"))
    return sorted(point for point in injector.seen if any(name in point.calls for name in PERMISSION))


@pytest.mark.parametrize("kind", ["disconnect", "bug"])
@pytest.mark.parametrize("channel", CIRCUITS)
async def test_a_fault_at_any_await_of_a_probe_keeps_no_circuit_open(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, channel: str, kind: Kind
) -> None:
    monkeypatch.setattr(circuit_breakers, "EXCHANGE_SECONDS", 0.02)
    pool = stage.worker_pool
    awaits = await probing_points(stage, channel, pool)
    assert {point.operation for point in awaits} >= {"acquire", "fetchval"}
    if channel == "push":
        assert any("return_probe" in point.calls for point in awaits)
    injector = Injector(kind)
    strikes: list[tuple[Point, Moment]] = [
        (point, moment) for point in awaits for moment in MOMENTS[: 1 if point.operation == "acquire" else 2]
    ]
    async with working(stage, channel, pool, injector) as worker:
        for number, (point, moment) in enumerate(strikes):
            where = f"{kind} {moment} {point}"
            for attempt in range(TRIES):
                injector.disarm()
                injector.arm(point, moment)
                rows = await end(stage, await accept(stage, channel, worker, f"{channel}-{number}-{attempt}"))
                if injector.hit.is_set():
                    break

            assert injector.hit.is_set(), where
            others = [row for row in unfinished(rows) if row["state"] != "skipped"]
            assert len(rows) - len(others) >= (2 if kind == "bug" else 3), where
            assert {row["last_error_code"] for row in others} <= {"internal_error"}, where
            assert all(injector.taken[row["id"]] <= 1 for row in rows), where
            await found(lambda: stage.pool.fetchval(CLOSED, CIRCUITS[channel]))
