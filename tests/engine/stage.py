"""The engine on a real database, with a provider that does as it is told and a clock that can be moved."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar
from uuid import UUID

from tests import rows
from tests.databases import SCHEMA
from tests.waiting import found
from tocsin.catalog.catalog import Catalog
from tocsin.domain.delivery.message import Limits, Message, Provider
from tocsin.domain.delivery.outcome import Outcome, Sent
from tocsin.domain.intent import Audience, Intent
from tocsin.domain.limits import LimitsSettings
from tocsin.domain.timing.quiet_hours import QuietHours, QuietHoursSettings
from tocsin.engine.accept.acceptor import Acceptor
from tocsin.engine.accept.answers import Accepted
from tocsin.engine.accept.planner import Planner
from tocsin.engine.clock import Clock
from tocsin.engine.dispatch.rules import DeliveryRules
from tocsin.engine.dispatch.settings import DispatchSettings
from tocsin.engine.toggles.toggles import Toggles, ToggleWatch
from tocsin.engine.wake import Wake
from tocsin.engine.worker import Worker, WorkerSettings
from tocsin.store.pool import Pool, PoolSettings

PUSH = {"push": ("fcm", "apns", "expo", "webpush")}
QUICK = DispatchSettings(poll_seconds=0.02, lease_seconds=30.0, stop_seconds=10.0)


class MovableClock:
    """Tells the real time, moved by as much as a test asked for."""

    def __init__(self) -> None:
        self._ahead = timedelta()

    def __call__(self) -> datetime:
        return datetime.now(UTC) + self._ahead

    def advance(self, by: timedelta) -> None:
        self._ahead += by

    def move_to(self, moment: datetime) -> None:
        """Let it be that moment now."""
        self._ahead = moment - datetime.now(UTC)


class StubProvider:
    """Answers each message with the next scripted outcome of its target, else takes it."""

    name: ClassVar[str] = "fcm"
    limits: ClassVar[Limits] = Limits(payload_bytes=4_096, batch=1, ttl_seconds=2_419_200)

    def __init__(self, concurrency: int = 10, seconds: float = 0.0) -> None:
        self._concurrency = concurrency
        self._seconds = seconds
        self._script: defaultdict[str, list[Outcome | Exception]] = defaultdict(list)
        self.let_go = asyncio.Event()
        self.let_go.set()
        self.arrived: list[Message] = []
        self.most_at_once = 0
        self._at_once = 0

    @property
    def concurrency(self) -> int:
        return self._concurrency

    def script(self, target: str, *answers: Outcome | Exception) -> None:
        self._script[target].extend(answers)

    def hold(self) -> None:
        """Answer nothing until `let_go` is set."""
        self.let_go.clear()

    @property
    def at_work(self) -> bool:
        return self._at_once > 0

    def counts(self) -> Counter[UUID]:
        """Count how often each delivery came."""
        return Counter(message.delivery_id for message in self.arrived)

    async def prepare(self) -> None:
        """Nothing to fetch ahead."""

    async def send(self, batch: Sequence[Message], *, now: datetime) -> Sequence[Outcome]:  # noqa: ARG002
        self._at_once += len(batch)
        self.most_at_once = max(self.most_at_once, self._at_once)
        self.arrived.extend(batch)
        try:
            await self.let_go.wait()
            await asyncio.sleep(self._seconds)
            return [self._answer(message) for message in batch]
        finally:
            self._at_once -= len(batch)

    async def aclose(self) -> None:
        self.let_go.set()

    def _answer(self, message: Message) -> Outcome:
        script = self._script[message.target]
        answer = script.pop(0) if script else Sent(f"message-{message.delivery_id}")
        if isinstance(answer, Exception):
            raise answer
        return answer


def a_provider(name: str, *, concurrency: int = 10, batch: int = 1) -> StubProvider:
    """Give a provider of another name, which may take several messages at once."""
    limits = Limits(payload_bytes=4_096, batch=batch, ttl_seconds=2_419_200)
    made: type[StubProvider] = type(name, (StubProvider,), {"name": name, "limits": limits})
    return made(concurrency)


class BatchProvider(StubProvider):
    """Takes several messages at once."""

    limits: ClassVar[Limits] = Limits(payload_bytes=4_096, batch=4, ttl_seconds=2_419_200)


class Stage:
    """Everything from an intent to its settlement."""

    def __init__(
        self, database_url: str, pool: Pool, worker_pool: Pool, catalog: Catalog, clock: MovableClock
    ) -> None:
        self.database_url = database_url
        self.pool = pool
        self.clock = clock
        self.catalog = catalog
        self.worker_pool = worker_pool
        self.toggles = Toggles()
        self.quiet = QuietHoursSettings(enabled=False)
        self.limits = LimitsSettings()
        self.acceptor = self.an_acceptor()

    def an_acceptor(
        self,
        providers: Mapping[str, Sequence[str]] = PUSH,
        admins: Mapping[str, Sequence[str]] | None = None,
        clock: Clock | None = None,
    ) -> Acceptor:
        planner = Planner(self.catalog, providers, admins or {}, self.toggles)
        return Acceptor(self.pool, planner, clock or self.clock)

    async def accept(self, *users: str, **changes: Any) -> UUID:
        """Accept one intent for some people and give the notification."""
        (answer,) = await self.acceptor.accept("shop", [an_intent(*users, **changes)])
        assert isinstance(answer, Accepted)
        return answer.notification_id

    async def device(self, user_id: str = "ada", **changes: Any) -> UUID:
        """Give a person a phone whose token is their name."""
        token = changes.pop("token", user_id)
        seen = self.clock() - timedelta(days=1)
        return await rows.add_device(
            self.pool, user_id, token=token, registered_at=seen, last_seen_at=seen, **changes
        )

    def rules(self, *providers: Provider, toggles: Toggles | None = None) -> DeliveryRules:
        return DeliveryRules(
            catalog=self.catalog,
            providers=frozenset(provider.name for provider in providers),
            toggles=toggles or self.toggles,
            quiet=QuietHours.compile(self.quiet),
            limits=self.limits,
        )

    @asynccontextmanager
    async def working(
        self,
        *providers: Provider,
        settings: DispatchSettings = QUICK,
        lanes: Collection[str] | None = None,
        **more: Any,
    ) -> AsyncIterator[asyncio.Event]:
        """Run a worker until the block ends; the event given stops it sooner."""
        worker = await self.a_worker(*providers, settings=settings, lanes=lanes, **more)
        stop = asyncio.Event()
        running = asyncio.create_task(worker.run(stop))
        try:
            yield stop
        finally:
            stop.set()
            async with asyncio.timeout(settings.stop_seconds + 5):
                await running

    async def a_worker(
        self,
        *providers: Provider,
        settings: DispatchSettings = QUICK,
        lanes: Collection[str] | None = None,
        **more: Any,
    ) -> Worker:
        """Build a worker with the toggles as they stand."""
        toggles = Toggles()
        async with self.pool.acquire() as connection:
            await toggles.load(connection)
        return Worker(
            pool=self.worker_pool,
            wake=Wake(self.database_url, SCHEMA, PoolSettings()),
            watch=ToggleWatch(toggles, self.database_url, SCHEMA, PoolSettings()),
            rules=self.rules(*providers, toggles=toggles),
            providers={provider.name: provider for provider in providers},
            settings=WorkerSettings(dispatch=settings, **more),
            clock=self.clock,
            lanes=lanes,
        )

    async def deliveries(self, notification_id: UUID) -> list[dict[str, Any]]:
        there = await self.pool.fetch(
            "select * from deliveries where notification_id = $1 order by id", notification_id
        )
        return [dict(row) for row in there]

    async def states(self) -> Counter[str]:
        """Count all deliveries by state."""
        there = await self.pool.fetch("select state, count(*) from deliveries group by state")
        return Counter(dict(map(tuple, there)))

    async def settled(self, notification_id: UUID, *states: str) -> list[dict[str, Any]]:
        """Wait until every delivery of a notification is in one of some states, and give them."""

        async def look() -> list[dict[str, Any]]:
            there = await self.deliveries(notification_id)
            return there if all(row["state"] in states for row in there) else []

        return await found(look)

    async def attempts(self) -> list[tuple[str, str]]:
        """List outcome and code of every failed attempt, oldest first."""
        return [tuple(row) for row in await self.pool.fetch("select outcome, code from attempts order by id")]


def an_intent(*users: str, **changes: Any) -> Intent:
    fields: dict[str, Any] = {
        "type": "new_customer",
        "audience": Audience(users=list(users or ("ada",))),
        "payload": {"customer_name": "Ali Veli"},
        "idempotency_key": "key",
    }
    return Intent(**fields | changes)
