"""Death without warning, `kill -9`, of everything that can die: nothing that was accepted is lost."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.figures import Figure
from tests.acceptance.installation import Installation, Producer, installed, intent
from tests.acceptance.postgres import kill_postgres, mortal_folder
from tests.databases import SCHEMA
from tests.waiting import until
from tocsin.sandbox import Hang, Latency, SandboxSettings
from tocsin.store.embedded import EmbeddedPostgres
from tocsin.store.migrate import migrate
from tocsin.store.pool import PoolSettings

IN_FLIGHT = 2_000
INTENTS = 2_000
BATCH = 50
PRODUCERS = 64
BATCH_PRODUCERS = 4
WORKER_CONCURRENCY = 100
# A worker sends so many at once only after its provider has kept up with half of them, which depends on the
# speed of the machine; this one begins with as many as it may.
WITH_MANY_AT_ONCE = f"import tocsin.engine.dispatch.concurrency as c; c.FIRST = {2 * IN_FLIGHT}"


@pytest.fixture
async def roomy(database_url: str, tmp_path: Path) -> AsyncIterator[Installation]:
    """Yield an installation whose provider lets all that hang share a connection."""
    streams = SandboxSettings(max_concurrent_streams=2 * IN_FLIGHT)
    async with installed(database_url, tmp_path, streams) as made:
        yield made


async def test_a_worker_killed_with_2000_in_flight_loses_nothing(roomy: Installation, figure: Figure) -> None:
    """Half of those in flight have reached their phone already, and only the answer is missing."""
    installation = roomy
    people, times, answered = 60, 40, 400
    patient = {
        "TOCSIN_FCM__MAX_CONCURRENCY": str(people * times),
        # However slow the machine: those in flight neither time out nor lose their lease while they gather.
        "TOCSIN_FCM__TIMEOUT": "60",
        "TOCSIN_DISPATCH__LEASE_SECONDS": "200",
    }
    sandbox = installation.sandbox
    producer = await installation.start_api()
    phones = await producer.register_many(people)
    tokens = list(phones.values())
    arrived, on_the_way = tokens[:25], tokens[25:50]
    for hanging, fault in ((arrived, Hang(delivered=True)), (on_the_way, Hang())):
        for token in hanging:
            sandbox.faults.script(token, fault, repeat=True)

    await producer.notify_many(list(phones), times)
    worker = await installation.start_worker(WITH_MANY_AT_ONCE, **patient)
    await until(lambda: sandbox.stats().in_flight == IN_FLIGHT, within=60)
    await installation.until_sent(answered)
    await worker.kill()
    in_flight = await installation.deliveries("lease is not null and leased_until > now()")
    for token in (*arrived, *on_the_way):
        sandbox.faults.unscript(token)
    await installation.expire_leases()
    await installation.start_worker(**patient)
    await installation.until_sent(people * times)

    stats = sandbox.stats()
    figure("duplicates after kill -9 of a worker with 2,000 in flight", stats.duplicates)
    assert in_flight == IN_FLIGHT
    assert stats.distinct_deliveries == people * times
    assert stats.duplicates == len(arrived) * times < IN_FLIGHT
    for token in tokens:
        phone = sandbox.phones.find(token)
        assert phone is not None
        assert phone.received == (2 * times if token in arrived else times)
    # The lease was lost, but not by any of them alone: none is charged for it.
    assert await installation.deliveries("attempts = 1") == people * times


class Accepting:
    """Producers that hand in intents, each until it is answered, and remember every answer."""

    def __init__(self, producer: Producer) -> None:
        self._producer = producer
        self.database_died = asyncio.Event()
        self.statuses: Counter[int] = Counter()
        self.problems: Counter[str] = Counter()
        self.answers: Counter[str] = Counter()
        self.accepted: dict[str, str] = {}

    async def hand_in_singly(self, contents: Iterator[dict[str, Any]]) -> None:
        for content in contents:
            answer = await self._answered("/v1/notifications", content)
            self._remember([content], [answer])

    async def hand_in_batches(self, batches: Iterator[Sequence[dict[str, Any]]]) -> None:
        for contents in batches:
            answer = await self._answered("/v1/notifications/batch", {"notifications": contents})
            self._remember(contents, answer["results"])

    async def _answered(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        while True:
            # However fast the machine, some are left to be handed in when the database is gone.
            if len(self.accepted) >= INTENTS * 3 // 4:
                await self.database_died.wait()
            answer = await self._producer.http.post(path, headers=self._producer.key, json=body)
            self.statuses[answer.status_code] += 1
            content: dict[str, Any] = answer.json()
            if answer.status_code < 400:
                return content
            self.problems[content["code"]] += 1
            # As the answer asks for: a producer waits a moment before it comes again.
            assert int(answer.headers["retry-after"]) >= 1
            await asyncio.sleep(0.1)

    def _remember(self, contents: Sequence[dict[str, Any]], answers: Sequence[dict[str, Any]]) -> None:
        for content, answer in zip(contents, answers, strict=True):
            self.answers[answer["status"]] += 1
            self.accepted[content["idempotency_key"]] = answer["notification_id"]


class Mortal:
    """An installation whose database can be killed."""

    def __init__(self, installation: Installation, server: EmbeddedPostgres, folder: Path) -> None:
        self.installation = installation
        self._server = server
        self._folder = folder

    async def kill_postgres(self) -> None:
        await asyncio.to_thread(kill_postgres, self._folder)

    async def start_postgres_again(self) -> None:
        assert await asyncio.to_thread(self._server.ensure_running)


@pytest.fixture
def data_dir() -> Iterator[Path]:
    with mortal_folder() as folder:
        yield folder


@pytest.fixture
async def mortal(data_dir: Path, tmp_path: Path) -> AsyncIterator[Mortal]:
    server = EmbeddedPostgres(data_dir)
    url = await asyncio.to_thread(server.start)
    try:
        await migrate(url, SCHEMA, PoolSettings())
        async with installed(url, tmp_path) as installation:
            yield Mortal(installation, server, data_dir)
    finally:
        await asyncio.to_thread(server.stop)


async def test_postgres_killed_while_2000_are_accepted_loses_nothing(mortal: Mortal, figure: Figure) -> None:
    installation = mortal.installation
    installation.sandbox.faults.latency(Latency(0.02))
    assert await installation.pool.fetchval("show fsync") == "on"
    producer = await installation.start_api()
    await installation.start_worker(TOCSIN_FCM__MAX_CONCURRENCY=str(WORKER_CONCURRENCY))
    phones = list(await producer.register_many(20))
    contents = [intent(phones[number % len(phones)]) for number in range(INTENTS)]
    singles = iter(contents[: INTENTS // 2])
    batches = (contents[start : start + BATCH] for start in range(INTENTS // 2, INTENTS, BATCH))
    accepting = Accepting(producer)

    async with asyncio.TaskGroup() as producers:
        for _ in range(PRODUCERS):
            producers.create_task(accepting.hand_in_singly(singles))
        for _ in range(BATCH_PRODUCERS):
            producers.create_task(accepting.hand_in_batches(batches))
        await until(lambda: len(accepting.accepted) >= INTENTS // 10)
        await mortal.kill_postgres()
        before = dict(accepting.accepted)
        accepting.database_died.set()
        await until(lambda: accepting.statuses[503] > 0)
        assert (await producer.http.get("/healthz")).status_code == 200
        assert (await producer.http.get("/readyz")).status_code == 503
        await mortal.start_postgres_again()
    await installation.until_sent(INTENTS)

    stored = {
        row["idempotency_key"]: str(row["id"])
        for row in await installation.pool.fetch("select id, idempotency_key from notifications")
    }
    stats = installation.sandbox.stats()
    figure("answered before Postgres was killed", len(before))
    figure("answers while 2,000 were accepted and Postgres was killed", dict(accepting.statuses))
    figure("of those that were handed in again, already there", accepting.answers["duplicate"])
    figure("duplicates after kill -9 of Postgres", stats.duplicates)
    assert 0 < len(before) < INTENTS
    assert stored == accepting.accepted
    assert before.items() <= stored.items()
    assert set(accepting.statuses) == {200, 202, 503}
    assert set(accepting.problems) == {"unavailable"}
    assert stats.distinct_deliveries == INTENTS
    assert stats.duplicates <= WORKER_CONCURRENCY
    assert (await producer.http.get("/readyz")).status_code == 200
