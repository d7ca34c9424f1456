"""One intent to very many people, while another producer's messages and those of another type go on."""

import asyncio
import contextlib
import itertools
import sys
import time
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from typing import Literal, NamedTuple
from uuid import UUID

import asyncpg
import msgspec
from pyreqwest.client import ClientBuilder

from bench.contract import Arena, Reading
from bench.controls import Controls
from bench.goals import BESIDE_BROADCAST_P99_MS, NONE, PROCESS_MEGABYTES
from bench.meter import Peak, peak_memory
from bench.process import Conversation, ProgramFailedError, conversing
from bench.programs.open_loop import Load
from bench.progress import tell
from bench.settled import all_settled, check_sent, is_waiting_of
from bench.tocsin_server import SCHEMA, Server, tocsin_server
from tocsin.api.auth.api_keys import create_key
from tocsin.api.auth.roles import Role
from tocsin.store.pool import connection_settings

WORKERS, CONCURRENCY = 2, 300
OTHERS_A_SECOND = 10.0
OTHERS_SECONDS = 5.0
"""The other producer's messages are scheduled for so long at a time, until the broadcast is over."""
PRODUCER = "bench"
POLL_SECONDS = 0.5
TELL_EVERY = 10.0

ADD_PEOPLE = """
insert into users (user_id, locale, timezone, updated_at)
select distinct user_id, 'en', 'UTC', now()
from devices
"""
# As in the line `latency`, of what was scheduled while the broadcast was under way.
LATENCY = """
select
    count(*) as messages,
    count(*) filter (where micros is null) as unsent,
    percentile_cont(array[0.5, 0.99, 1]) within group (order by micros / 1e3) as millis
from (
    select
        substring(deliveries.provider_message_id from '0:([0-9]+)%')::bigint - scheduled.at as micros
    from notifications
    join deliveries on deliveries.notification_id = notifications.id
    cross join lateral (
        select split_part(notifications.idempotency_key, '-', 3)::bigint as at
    ) as scheduled
    where notifications.producer = $1 and notifications.type = $2 and scheduled.at < $3
) as each
"""
PROGRESS = "select state, expanded, total from broadcasts where notification_id = $1"
REACHED = """
select count(*) as deliveries, count(distinct user_id) as people
from deliveries
where notification_id = $1
"""


class Beside(NamedTuple):
    """Messages that are sent while a broadcast is under way."""

    title: str
    producer: str
    type: Literal["new_customer", "message"]


BESIDE = (
    Beside("another producer's messages", "another", "new_customer"),
    Beside("messages of another type", PRODUCER, "message"),
)


class Broadcast:
    name = "broadcast"
    title = "One intent to many people"

    def __init__(self, people: int) -> None:
        self._people = people

    async def measure(self, arena: Arena) -> Sequence[Reading]:
        """Broadcast to everyone; a few other messages a second are sent meanwhile."""
        arena = msgspec.structs.replace(arena, numbers=self._people)
        async with _opened(arena) as (server, books, others):
            await books.execute(ADD_PEOPLE)
            await books.execute("analyze users")
            before = await Controls(arena.control_url).stats("fcm")
            async with peak_memory((server.api_pid,)) as api, _peaks(server.worker_pids) as workers:
                began = time.perf_counter()
                notification_id = await _send(server)
                accepted = time.perf_counter() - began
                sending = [
                    asyncio.create_task(_others(conversation, beside, self._people))
                    for conversation, beside in zip(others, BESIDE, strict=True)
                ]
                try:
                    seconds = await _sent(books, notification_id, began)
                    ended = round(1e6 * time.time())
                finally:
                    await _stopped(sending)
            await all_settled(books)
            await check_sent(books, notification_id)
            latencies = [reading for beside in BESIDE for reading in await _latencies(books, beside, ended)]
            reached = await books.fetchrow(REACHED, notification_id)
            stats = await Controls(arena.control_url).stats("fcm")
        megabytes = [each.bytes / 1e6 for each in workers]
        return [
            Reading(
                "broadcast", self._people / seconds, "/s",
                note=f"{self._people:,} people in {seconds:,.0f} s, {WORKERS} workers of {CONCURRENCY}",
            ),
            Reading("accepting it", 1e3 * accepted, "ms"),
            Reading("memory of a worker", max(megabytes), "MB", PROCESS_MEGABYTES, note="the highest"),
            Reading("memory of the API", api.bytes / 1e6, "MB", PROCESS_MEGABYTES, note="the highest"),
            *latencies,
            Reading("left out", self._people - reached["people"], "people", NONE),
            Reading("expanded twice", reached["deliveries"] - reached["people"], "people", NONE),
            Reading("sent twice", stats.duplicates - before.duplicates, "messages", NONE),
        ]  # fmt: skip


@contextlib.asynccontextmanager
async def _opened(arena: Arena) -> AsyncIterator[tuple[Server, asyncpg.Connection, list[Conversation]]]:
    async with contextlib.AsyncExitStack() as stack:
        server = await stack.enter_async_context(
            tocsin_server(arena, workers=WORKERS, concurrency=CONCURRENCY)
        )
        books = await asyncpg.connect(server.database_url, server_settings=connection_settings(SCHEMA))
        stack.push_async_callback(books.close)
        keys = {PRODUCER: server.key}
        others = []
        for beside in BESIDE:
            if beside.producer not in keys:
                created = await create_key(books, beside.producer, Role.PRODUCER, datetime.now(UTC))
                keys[beside.producer] = created.secret
            others.append(
                await stack.enter_async_context(
                    conversing(
                        [sys.executable, "-m", "bench.programs.open_loop"],
                        {"BENCH_API": server.api_url, "BENCH_KEY": keys[beside.producer]},
                        arena.workdir / f"open_loop_{beside.producer}.log",
                    )
                )
            )
        yield server, books, others


@contextlib.asynccontextmanager
async def _peaks(pids: Sequence[int]) -> AsyncIterator[list[Peak]]:
    async with contextlib.AsyncExitStack() as stack:
        yield [await stack.enter_async_context(peak_memory((pid,))) for pid in pids]


async def _send(server: Server) -> UUID:
    """Hand in the broadcast."""
    intent = {
        "type": "new_customer",
        "audience": {"everyone": True},
        "payload": {"customer_name": "Everybody"},
        "idempotency_key": "broadcast",
    }
    async with ClientBuilder().base_url(server.api_url).error_for_status(True).build() as client:
        building = client.post("/v1/notifications").bearer_auth(server.key)
        response = await building.body_json(intent).build().send()
        answer = await response.json()
    return UUID(answer["notification_id"])


async def _latencies(books: asyncpg.Connection, beside: Beside, ended: int) -> list[Reading]:
    """Return how long messages took that were scheduled before the broadcast ended."""
    row = await books.fetchrow(LATENCY, beside.producer, beside.type, ended)
    if row["unsent"]:
        raise ProgramFailedError(f"{row['unsent']} were not sent: {beside.title}")
    median, p99, slowest = row["millis"]
    note = f"{row['messages']:,} at {OTHERS_A_SECOND:.0f}/s; the slowest {slowest:,.0f} ms"
    return [
        Reading(f"{beside.title}, median", median, "ms"),
        Reading(f"{beside.title}, p99", p99, "ms", BESIDE_BROADCAST_P99_MS, note=note),
    ]


async def _others(others: Conversation, beside: Beside, people: int) -> None:
    """Send messages beside the broadcast until stopped, and then what is scheduled already."""
    for serial in itertools.count():
        load = Load(
            serial=serial,
            rate=OTHERS_A_SECOND,
            seconds=OTHERS_SECONDS,
            collect_seconds=0.0,
            first=serial * 1_000,
            users=people,
            type=beside.type,
        )
        try:
            await asyncio.shield(ask := asyncio.ensure_future(others.ask(load)))
        except asyncio.CancelledError:
            await ask
            return


async def _stopped(sending: Sequence[asyncio.Task[None]]) -> None:
    for each in sending:
        each.cancel()
    await asyncio.gather(*sending)


async def _sent(books: asyncpg.Connection, notification_id: UUID, began: float) -> float:
    """Wait until everybody got it; return the seconds."""
    told = began
    while True:
        row = await books.fetchrow(PROGRESS, notification_id)
        now = time.perf_counter()
        if row["state"] == "finished" and not await is_waiting_of(books, notification_id):
            return time.perf_counter() - began
        if now - told > TELL_EVERY:
            told = now
            tell(f"broadcast  {row['expanded']:,} of {row['total'] or 0:,} people after {now - began:,.0f} s")
        await asyncio.sleep(POLL_SECONDS)
