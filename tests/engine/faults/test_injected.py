"""A fault at every await between the claim and the settlement, one at a time.

The awaits are found by a run without faults: every statement, transaction and send that a lane, its sender or
the settlement writer waits for, told apart by the calls that lead to it. A new one is covered as it is.
"""

import asyncio
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from types import FrameType
from typing import Any, Literal, NamedTuple
from uuid import UUID

import asyncpg
import msgspec
import pytest

from tests.engine.faults.faulty import FaultyPool
from tests.engine.stage import Stage, StubProvider, an_intent
from tests.rows import add_device
from tests.waiting import found
from tocsin.domain.delivery.message import Limits, Message, Provider
from tocsin.domain.delivery.outcome import Outcome, Rejected
from tocsin.domain.intent import Audience, Intent
from tocsin.engine.accept.answers import Accepted
from tocsin.engine.health.settings import rates_type
from tocsin.store.pool import Pool

LEASE = timedelta(seconds=31)
STANDSTILL = 0.25
"""For how long nothing may change before the clock is moved by a lease."""
TRIES = 5
"""How often a run may miss an await that depends on how it is timed."""
REFUSED = "bad_target"
PATH = ("/engine/dispatch/", "/engine/settle/writer.py")
CHANNELS = ("push", "email", "webhook")
PROVIDERS = {"push": ("fcm", "apns"), "email": ("smtp",), "webhook": ("webhook",)}
RATES = rates_type({"smtp": 200.0})(ramp_seconds=0)

Moment = Literal["before", "after"]
MOMENTS: tuple[Moment, Moment] = "before", "after"
Kind = Literal["disconnect", "bug", "crash"]


class Point(NamedTuple):
    """An await of the path: the calls that lead to it, and what is awaited."""

    calls: str
    operation: str


def point_of(operation: str) -> Point | None:
    """Return the await at hand if a lane, a sender or the writer waits for it."""
    frame: FrameType | None = sys._getframe(2)
    calls, is_on_path = [], False
    while frame is not None:
        file = frame.f_code.co_filename
        if "/tocsin/" in file and "/tests/" not in file:
            calls.append(f"{frame.f_code.co_qualname}:{frame.f_lineno}")
            is_on_path |= any(part in file for part in PATH)
        frame = frame.f_back
    return Point(" < ".join(calls), operation) if is_on_path else None


class Injector:
    """Fails once, at one point; `taken` are the messages that a provider has."""

    def __init__(self, kind: Kind, finds: Mapping[Point, bool] | None = None) -> None:
        self.finds = finds or {}
        self.kind = kind
        self._target: tuple[Point, Moment] | None = None
        self.seen: dict[Point, bool] = {}
        self.hit = asyncio.Event()
        self._buried = asyncio.Event()
        self.taken_at_fault: set[UUID] = set()
        self.taken: Counter[UUID] = Counter()

    def arm(self, point: Point, moment: Moment) -> None:
        self._target = point, moment

    def disarm(self) -> None:
        self._target = None
        self.hit.clear()
        self.taken_at_fault = set()

    async def __call__(self, operation: str, perform: Callable[[], Awaitable[Any]]) -> Any:
        if self._buried.is_set():
            raise asyncio.CancelledError
        point = point_of(operation)
        if point is None:
            return await perform()
        if self._target == (point, "before"):
            self._target = None
            await self._fail()
        result = await perform()
        found_something = operation != "fetch" or bool(result)
        self.seen[point] = self.seen.get(point, False) or found_something
        # A claim that finds nothing has no effect that could be lost; some never find anything.
        if self._target == (point, "after") and (found_something or not self.finds.get(point)):
            self._target = None
            await self._fail()
        return result

    def bury(self) -> None:
        """End whatever the killed worker still does."""
        self._buried.set()

    async def _fail(self) -> None:
        self.hit.set()
        match self.kind:
            case "disconnect":
                raise asyncpg.ConnectionDoesNotExistError("connection was closed in the middle of operation")
            case "bug":
                raise RuntimeError("nobody thought of this")
            case "crash":
                await self._buried.wait()
                raise asyncio.CancelledError


class WiredProvider(StubProvider):
    """Takes messages through an injector."""

    injector: Injector

    async def send(self, batch: Sequence[Message], *, now: datetime) -> Sequence[Outcome]:
        async def take() -> Sequence[Outcome]:
            self.injector.taken.update(message.delivery_id for message in batch)
            return await StubProvider.send(self, batch, now=now)

        try:
            outcomes: Sequence[Outcome] = await self.injector("send", take)
        except (RuntimeError, asyncpg.PostgresError):
            self.injector.taken_at_fault.update(message.delivery_id for message in batch)
            raise
        return outcomes

    def _answer(self, message: Message) -> Outcome:
        return Rejected(REFUSED) if "bad" in message.target else super()._answer(message)

    def host_of(self, target: str) -> str:
        return target.rpartition("/")[0] or target


def providers_of(channel: str, injector: Injector) -> list[Provider]:
    made: list[Provider] = []
    for name in PROVIDERS[channel]:
        fields = {
            "name": name,
            "injector": injector,
            "limits": Limits(payload_bytes=4_096, batch=2, ttl_seconds=60),
        }
        made.append(type(name, (WiredProvider,), fields)())
    return made


class Scenario:
    """Notifications by one channel that take every way between a claim and a settlement."""

    def __init__(self, stage: Stage, channel: str) -> None:
        self._stage = stage
        self._channel = channel
        self._acceptor = stage.an_acceptor(PROVIDERS)
        self._number = 0
        self.lost: UUID | None = None

    async def accept(self, when_ready: Callable[[], None] = lambda: None) -> list[UUID]:
        """Accept the notifications for people who have got nothing yet; call back just before."""
        self._number += 1
        who = f"{self._number}"
        intents = await {"push": self._push, "email": self._email, "webhook": self._webhook}[self._channel](
            who
        )
        keyed = [
            msgspec.structs.replace(each, idempotency_key=f"{who}-{number}")
            for number, each in enumerate(intents)
        ]
        later = self._stage.clock() + timedelta(hours=1)
        keyed.append(msgspec.structs.replace(keyed[0], idempotency_key=f"{who}-lost", send_at=later))
        when_ready()
        answers = await self._acceptor.accept("shop", keyed)
        assert all(isinstance(answer, Accepted) for answer in answers), answers
        accepted: list[UUID] = [each.notification_id for each in answers if isinstance(each, Accepted)]
        self.lost = accepted[-1]
        await self._lose(self.lost)
        return accepted

    async def _lose(self, notification_id: UUID) -> None:
        """Let it be due, under a lease that a worker lost; each lane looks for those once a second."""
        await self._stage.pool.execute(
            "update deliveries"
            " set state = 'pending', due_at = $2, lease = gen_random_uuid(), leased_until = $2"
            " where notification_id = $1",
            notification_id,
            self._stage.clock(),
        )
        self._stage.clock.advance(timedelta(seconds=1.1))

    async def _push(self, who: str) -> list[Intent]:
        device = self._stage.device
        for number in range(3):
            await device(f"{who}-one{number}")
        for number in range(2):
            await device(f"{who}-two", token=f"{who}-two{number}")
        await device(f"{who}-mixed", token=f"{who}-mixed0")
        await device(f"{who}-mixed", token=f"{who}-mixed1", provider="apns")
        await device(f"{who}-bad")
        plain = partial(an_intent, type="plain", payload={})
        digest = an_intent(f"{who}-one1", type="collected", payload={})
        (answer,) = await self._acceptor.accept(
            "shop", [msgspec.structs.replace(digest, idempotency_key=who)]
        )
        assert isinstance(answer, Accepted)
        self._stage.clock.advance(timedelta(seconds=3))
        return [
            plain(f"{who}-one0", f"{who}-one1"),
            plain(f"{who}-two"),
            plain(f"{who}-mixed", f"{who}-bad"),
            an_intent(f"{who}-one0", type="rare", payload={}),
            an_intent(f"{who}-one2", type="step", payload={}),
            an_intent(f"{who}-one2", type="step", payload={}),
        ]

    async def _email(self, who: str) -> list[Intent]:
        audience = Audience(emails=[f"{who}-{name}@example.com" for name in ("a", "b", "bad")])
        return [an_intent(type="mail_only", payload={"text": "Fire"}, audience=audience)]

    async def _webhook(self, who: str) -> list[Intent]:
        for name in ("a", "b", "bad"):
            await add_device(
                self._stage.pool,
                f"{who}-{name}",
                token=f"https://{who}-{name}.example/hook",
                provider="webhook",
                platform="server",
                secret="whsec_x",
            )
        return [an_intent(*(f"{who}-{name}" for name in ("a", "b", "bad")), type="hook_only", payload={})]


async def rows_of(stage: Stage, notifications: Sequence[UUID]) -> list[Mapping[str, Any]]:
    rows: list[Mapping[str, Any]] = await stage.pool.fetch(
        "select * from deliveries where notification_id = any($1::uuid[])", notifications
    )
    return rows


async def end(stage: Stage, notifications: Sequence[UUID]) -> list[Mapping[str, Any]]:
    """Wait until all of it has ended; if nothing moves any more, for one lease and no longer."""
    loop = asyncio.get_running_loop()
    before: Any = None
    changed_at, is_waited = loop.time(), False

    async def look() -> list[Mapping[str, Any]]:
        nonlocal before, changed_at, is_waited
        rows = await rows_of(stage, notifications)
        now = [
            (row["id"], row["state"], row["lease"], row["due_at"])
            for row in sorted(rows, key=lambda row: row["id"])
        ]
        if now != before:
            before, changed_at = now, loop.time()
        if not is_waited and loop.time() - changed_at > STANDSTILL:
            is_waited = True
            stage.clock.advance(LEASE)
        return rows if all(row["settled_at"] for row in rows) else []

    return await found(look, within=15)


async def points(stage: Stage, channel: str, pool: Pool) -> dict[Point, bool]:
    """List the awaits of a run in which nothing fails, and whether each found anything.

    Those that only some runs have are left out.
    """
    runs = []
    for number in range(2):
        injector = Injector("disconnect")
        stage.worker_pool = FaultyPool.of(pool, injector)
        scenario = Scenario(stage, channel)
        scenario._number = number * 10_000 + 10_000
        async with stage.working(*providers_of(channel, injector), rates=RATES):
            await end(stage, await scenario.accept())
        runs.append(injector.seen)
    first, second = runs
    return {point: first[point] or second[point] for point in sorted(first) if point in second}


@pytest.mark.timeout(240)
@pytest.mark.parametrize("kind", ["disconnect", "bug"])
@pytest.mark.parametrize("channel", CHANNELS)
async def test_a_fault_at_any_await_loses_nothing_and_repeats_nothing(
    stage: Stage, channel: str, kind: Kind
) -> None:
    """Only what the faulty send was about may come twice; nobody waits for longer than a lease."""
    pool = stage.worker_pool
    awaits = await points(stage, channel, pool)
    assert {point.operation for point in awaits} >= {"acquire", "fetch", "send"}
    injector = Injector(kind, awaits)
    stage.worker_pool = FaultyPool.of(pool, injector)
    scenario = Scenario(stage, channel)
    async with stage.working(*providers_of(channel, injector), rates=RATES):
        missed = [
            (point, moment)
            for point in awaits
            for moment in MOMENTS[: 1 if point.operation == "acquire" else 2]
            if not await strike(stage, scenario, injector, point, moment)
        ]
    still_missed = []
    for point, moment in missed:
        # Some a worker reaches once, such as those that learn the clock of the database.
        async with stage.working(*providers_of(channel, injector), rates=RATES):
            if not await strike(stage, scenario, injector, point, moment):
                still_missed.append((point, moment))
    assert len(still_missed) <= len(awaits) // 10, still_missed


async def strike(stage: Stage, scenario: Scenario, injector: Injector, point: Point, moment: Moment) -> bool:
    """Let one await fail and check what became of everything; return False if the runs never got there."""
    for _ in range(TRIES):
        injector.disarm()
        rows = await end(stage, await scenario.accept(partial(injector.arm, point, moment)))
        if injector.hit.is_set():
            check(rows, injector, scenario.lost, f"{injector.kind} {moment} {point}")
            return True
    return False


def check(rows: Sequence[Mapping[str, Any]], injector: Injector, lost: UUID | None, where: str) -> None:
    twice = {row["id"] for row in rows if injector.taken[row["id"]] > 1}
    assert twice <= injector.taken_at_fault, where
    others = unfinished(rows)
    # A bug in a step that only one delivery takes is that delivery's own.
    assert {row["last_error_code"] for row in others} <= {"internal_error"}, where
    assert len(others) <= (1 if injector.kind == "bug" else 0), where
    assert_charged_once([row for row in rows if row["id"] not in injector.taken_at_fault], lost, where)


def assert_charged_once(rows: Sequence[Mapping[str, Any]], lost: UUID | None, where: str) -> None:
    """Only one that was lost before, and is lost again by itself, is charged for that."""
    for row in rows:
        assert row["attempts"] in ({1, 2} if row["notification_id"] == lost else {1}), where


def unfinished(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """List what did not end as it does without a fault."""
    return [row for row in rows if row["state"] != "sent" and row["last_error_code"] != REFUSED]


@pytest.mark.timeout(240)
@pytest.mark.parametrize("channel", CHANNELS)
async def test_a_worker_killed_at_any_await_loses_nothing(stage: Stage, channel: str) -> None:
    """What it had settled is not sent again; the rest is, within a lease, and costs no attempt."""
    pool = stage.worker_pool
    scenario = Scenario(stage, channel)
    awaits = await points(stage, channel, pool)
    missed = []
    for point in awaits:
        injector = Injector("crash", awaits)
        stage.worker_pool = FaultyPool.of(pool, injector)
        worker = await stage.a_worker(*providers_of(channel, injector), rates=RATES)
        running = asyncio.create_task(worker.run(asyncio.Event()))
        notifications = await reach(stage, scenario, injector, point)
        injector.bury()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        if not injector.hit.is_set():
            missed.append(point)
            continue
        settled = {row["id"] for row in await rows_of(stage, notifications) if row["state"] == "sent"}
        survivor = Injector("crash")
        stage.worker_pool = FaultyPool.of(pool, survivor)
        async with stage.working(*providers_of(channel, survivor), rates=RATES):
            rows = await end(stage, notifications)

        where = f"killed after {point}"
        assert not unfinished(rows), where
        assert_charged_once(rows, scenario.lost, where)
        assert not settled & set(survivor.taken), where
        assert set(survivor.taken.values()) <= {1}, where
    assert len(missed) <= len(awaits) // 10, missed


async def reach(stage: Stage, scenario: Scenario, injector: Injector, point: Point) -> list[UUID]:
    """Accept notifications until the worker stops at a point, a few times at most; return the last ones."""
    notifications: list[UUID] = []

    async def is_over() -> bool:
        rows = await rows_of(stage, notifications)
        return injector.hit.is_set() or all(row["settled_at"] for row in rows)

    for _ in range(TRIES):
        injector.disarm()
        notifications = await scenario.accept(partial(injector.arm, point, "after"))
        await found(is_over, within=15)
        if injector.hit.is_set():
            break
    return notifications
