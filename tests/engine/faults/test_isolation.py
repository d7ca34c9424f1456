"""A bug that shows in one delivery ends that delivery; every other one of its claim goes on."""

import asyncio
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import asyncpg
import pytest
from structlog.testing import capture_logs

from tests.engine.faults.faulty import FaultyPool
from tests.engine.stage import Stage, StubProvider
from tests.waiting import found, until
from tocsin.domain.delivery.message import Message
from tocsin.domain.delivery.outcome import Outcome, Rejected, Sent
from tocsin.domain.limits import LimitsSettings
from tocsin.engine.dispatch import digest, fan_out, lane, sender
from tocsin.engine.dispatch.attempt import Attempt
from tocsin.engine.dispatch.render import Renderer
from tocsin.engine.dispatch.rules import DeliveryRules
from tocsin.engine.settle import writer
from tocsin.store.deliveries.settle import SentDelivery, Settled, UnsentDelivery, settle_sent, settle_unsent
from tocsin.store.pool import Connection

SECRET = "the payload says 4711"
OTHERS = 9
SECOND = timedelta(seconds=1)


def is_odd(value: Any) -> bool:
    """Find the odd one in whatever a step is given: an attempt, its digest, its target."""
    if isinstance(value, Attempt):
        return value.delivery.user_id == "odd"
    return bool(value == "odd")


def poisoned(original: Callable[..., Any]) -> Callable[..., Any]:
    def step(*arguments: Any, **named: Any) -> Any:
        if any(map(is_odd, arguments)):
            raise RuntimeError(SECRET)
        return original(*arguments, **named)

    return step


STEPS: dict[str, tuple[Any, str]] = {
    "decide": (DeliveryRules, "decide_attempt"),
    "limits of a device": (DeliveryRules, "attempt_device_allowances"),
    "fan-out": (fan_out.FanOut, "_targets"),
    "digest": (digest.DigestPayloads, "fill"),
    "render": (Renderer, "render"),
    "settle a refusal": (lane, "settle_refusal"),
    "circuit breaker": (sender.Sender, "_circuit"),
    "settle an outcome": (sender, "settle_outcome"),
}


class ManyHostsProvider(StubProvider):
    """Calls a host for each target."""

    def host_of(self, target: str) -> str:
        return f"{target}.example"


async def accept_all(stage: Stage, type_name: str, **changes: Any) -> dict[str, UUID]:
    names = ["odd", *(f"user{number}" for number in range(OTHERS))]
    for name in names:
        await stage.device(name)
    payload: dict[str, Any] = {"payload": {}} if type_name != "new_customer" else {}
    return {
        name: await stage.accept(name, type=type_name, idempotency_key=name, **payload, **changes)
        for name in names
    }


async def end_of(stage: Stage, notification_id: UUID) -> dict[str, Any]:
    async def ended() -> dict[str, Any] | None:
        (row,) = await stage.deliveries(notification_id)
        return row if row["settled_at"] is not None else None

    return await found(ended)


async def standing_alarm(stage: Stage) -> dict[str, Any]:
    async def raised() -> dict[str, Any] | None:
        row = await stage.pool.fetchrow("select * from alarms where code = 'internal_error'")
        return dict(row) if row else None

    return await found(raised)


@pytest.mark.parametrize("step", STEPS)
async def test_a_bug_in_one_delivery_is_settled_as_its_own(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    owner, name = STEPS[step]
    monkeypatch.setattr(owner, name, poisoned(getattr(owner, name)))
    type_name = "rare" if step in {"fan-out", "limits of a device"} else "new_customer"
    stage.limits = LimitsSettings(per_device_per_day=100 if step == "limits of a device" else None)
    if step == "digest":
        # Every attempt of the lane passes the step, whether it carries a digest or not.
        monkeypatch.setattr(lane, "_is_digest", lambda _: True)
    sent = await accept_all(stage, type_name)
    if step == "settle a refusal":
        await stage.pool.execute("update devices set push_enabled = false where user_id = 'odd'")
    with capture_logs() as logs:
        async with stage.working(ManyHostsProvider()):
            rows = {name: await end_of(stage, each) for name, each in sent.items()}
            alarm = await standing_alarm(stage)

    odd = rows.pop("odd")
    assert Counter(row["state"] for row in rows.values()) == Counter(sent=OTHERS)
    if step == "settle an outcome":
        # The provider took it: whatever went wrong afterwards, it is not sent again.
        assert odd["state"] == "sent"
    else:
        assert (odd["state"], odd["last_error_code"], odd["attempts"]) == ("rejected", "internal_error", 1)
        assert await stage.attempts() == [("rejected", "internal_error")]
    (logged,) = [line for line in logs if line["event"] == "delivery failed"]
    assert (logged["delivery_id"], logged["log_level"]) == (str(odd["id"]), "error")
    assert (logged["error"], "in step" in logged["raised_at"]) == ("RuntimeError", True)
    assert logged["correlation_id"] in alarm["detail"]
    assert SECRET not in f"{alarm} {odd} {logs}"
    if odd["state"] == "rejected":
        assert odd["last_error"] == f"RuntimeError; correlation id {logged['correlation_id']}"


REFUSALS = [
    asyncpg.DataError("invalid byte sequence"),
    asyncpg.ProgramLimitExceededError("index row size 3616 exceeds btree maximum"),
    asyncpg.CheckViolationError("violates check constraint"),
    ZeroDivisionError("a bug in the writer"),
]


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("outcome", ["sent", "unsent"])
async def test_a_settlement_that_the_database_refuses_is_the_fault_of_its_row(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, refusal: Exception, outcome: str
) -> None:
    """Refused with all that is known about it, it is settled with the least that can be said."""
    settle: Any = {"sent": settle_sent, "unsent": settle_unsent}[outcome]
    odd = await stage.device("odd")

    async def refusing(
        connection: Connection, batch: Sequence[SentDelivery | UnsentDelivery], now: Any
    ) -> Settled:
        if any(each.device_id == odd for each in batch):
            raise refusal
        settled: Settled = await settle(connection, batch, now)
        return settled

    monkeypatch.setattr(writer, settle.__name__, refusing)
    provider = StubProvider()
    if outcome == "unsent":
        provider.script("odd", Rejected("bad_token"))
    for number in range(OTHERS):
        await stage.device(f"user{number}")
    users = ["odd", *(f"user{number}" for number in range(OTHERS))]
    async with stage.working(provider):
        notification_id = await stage.accept(*users, type="plain", payload={})
        rows = await stage.settled(notification_id, "sent", "rejected")
        await standing_alarm(stage)

    ended = {row["user_id"]: (row["state"], row["last_error_code"]) for row in rows}
    assert ended.pop("odd") == (("sent", None) if outcome == "sent" else ("rejected", "internal_error"))
    assert set(ended.values()) == {("sent", None)}
    assert set(provider.counts().values()) == {1}


async def crash(stage: Stage, provider: StubProvider, when: Callable[[], bool], users: Sequence[str]) -> None:
    """Let a worker vanish while the messages to some people are with its provider."""
    provider.hold()
    async with stage.working(provider) as stop:
        await until(when)
        await stage.pool.execute(
            "update deliveries set lease = gen_random_uuid()"
            " where lease is not null and user_id = any($1::text[])",
            users,
        )
        stop.set()
        provider.let_go.set()
    stage.clock.advance(31 * SECOND)


class Killer(StubProvider):
    """Takes every message at once but the odd one, which is with it when its worker dies."""

    async def send(self, batch: Sequence[Message], *, now: datetime) -> Sequence[Outcome]:
        if all(message.target == "odd" for message in batch):
            return await super().send(batch, now=now)
        self.arrived.extend(batch)
        return [Sent() for _ in batch]

    def is_hit(self) -> bool:
        return any(message.target == "odd" for message in self.arrived)


class Alone(StubProvider):
    """Records which messages were with the provider at the same time."""

    def __init__(self) -> None:
        super().__init__(concurrency=10)
        self.together: set[frozenset[str]] = set()
        self._present: Counter[str] = Counter()

    async def send(self, batch: Sequence[Message], *, now: datetime) -> Sequence[Outcome]:
        self._present.update(message.target for message in batch)
        self.together.add(frozenset(+self._present))
        await asyncio.sleep(0.005)
        outcomes = await super().send(batch, now=now)
        self._present.subtract(message.target for message in batch)
        return outcomes


async def test_what_a_dead_worker_left_is_dispatched_one_by_one_and_charged_nothing(stage: Stage) -> None:
    names = [f"user{number}" for number in range(8)]
    for name in names:
        await stage.device(name)
    notification_id = await stage.accept(*names, type="plain", payload={})
    first = StubProvider()
    await crash(stage, first, lambda: len(first.arrived) == 8, names)
    alone = Alone()
    async with stage.working(alone):
        rows = await stage.settled(notification_id, "sent")

    assert {row["attempts"] for row in rows} == {1}
    assert alone.together == {frozenset([name]) for name in names}


async def test_what_kills_its_worker_ends_dead_and_its_neighbours_are_sent(stage: Stage) -> None:
    """Each time it is claimed, the worker dies: at first with all others, then by itself."""
    names = ["odd", *(f"user{number}" for number in range(5))]
    for name in names:
        await stage.device(name)
    notification_id = await stage.accept(*names, type="alert")
    first = StubProvider()
    await crash(stage, first, lambda: len(first.arrived) == 6, names)
    again: Counter[str] = Counter()
    for _ in range(3):
        killer = Killer()
        await crash(stage, killer, killer.is_hit, ["odd"])
        again.update(message.target for message in killer.arrived if message.target != "odd")
    provider = StubProvider()
    async with stage.working(provider):

        async def ended() -> list[dict[str, Any]]:
            rows = [row for row in await stage.deliveries(notification_id) if row["channel"] == "push"]
            return rows if all(row["settled_at"] for row in rows) else []

        rows = await found(ended)

    ended_as = {row["user_id"]: (row["state"], row["attempts"], row["last_error_code"]) for row in rows}
    assert ended_as.pop("odd") == ("dead", 3, "lease_expired")
    assert set(ended_as.values()) == {("sent", 1, None)}
    again.update(message.target for message in provider.arrived)
    assert again == Counter(names[1:])


async def test_an_alarm_survives_a_worker_that_stops_while_it_is_written(stage: Stage) -> None:
    provider, writing = StubProvider(), asyncio.Event()
    await stage.device("ada")
    provider.script("ada", Rejected("bad_token", alarm=True))

    async def slowly(operation: str, perform: Callable[[], Any]) -> Any:
        if operation == "execute" and any("raise_alarms" in line.name for line in traceback.extract_stack()):
            writing.set()
            await asyncio.sleep(0.3)
        return await perform()

    stage.worker_pool = FaultyPool.of(stage.worker_pool, slowly)
    async with stage.working(provider) as stop:
        await stage.accept("ada")
        await asyncio.wait_for(writing.wait(), 10)
        stop.set()

    assert await stage.pool.fetchval("select count from alarms where code = 'bad_token'") == 1
