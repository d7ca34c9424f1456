"""Publishing an application's outbox to a FIFO topic: how many messages a second, and what each costs."""

import asyncio
import contextlib
import sys
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import asyncpg

from bench.broker import drained, free_port
from bench.contract import Arena, Goal, Reading
from bench.goals import NONE
from bench.lines.sources.relay import application
from bench.meter import cpu_seconds
from bench.process import running
from bench.progress import tell
from bench.tocsin_server import database

EVENTS = 30_000
WARM_UP = 2_000
PEOPLE = 5_000
NEAR, FAR = 0, 20
"""After how many milliseconds the topic answers: at once, or about as SNS does within its region."""
FAR_BATCH = 500
GOAL = 2_500
SAMPLE_SECONDS = 0.05
READY_SECONDS = 30.0
REGION = "ap-southeast-1"
TOPIC = f"arn:aws:sns:{REGION}:123456789012:fisa-notify.fifo"

TABLE = """
create table outbox_events (
    id bigint generated always as identity primary key,
    event_type text not null,
    payload jsonb not null,
    created_at timestamptz not null default now(),
    published_at timestamptz,
    failed_attempts int not null default 0,
    next_retry_at timestamptz,
    last_error text
);
create index on outbox_events (id) where published_at is null;
create index on outbox_events (next_retry_at) where published_at is null and next_retry_at is not null;
"""
WRITE = """
insert into outbox_events (event_type, payload)
select 'comment.added', jsonb_build_object(
    'event_id', gen_random_uuid(),
    'event_type', 'comment.added',
    'org_id', '0190b5d2-7c4e-7a11-9c0e-3f6a5b2d1e40',
    'recipients', jsonb_build_array('user-' || number % $2::integer),
    'title', 'New comment',
    'body', 'Grace commented on "Quarterly report": looks good to me',
    'icon', 'comment',
    'severity', 'info',
    'deep_link', 'fisa://work-item/' || number || '?tab=comments',
    'extras', jsonb_build_object('work_item_id', number::text, 'priority', 'high'),
    'created_at', '2026-03-01T12:00:00Z',
    'correlation_id', 'trace-' || number
)
from generate_series(1, $1::integer) as number
"""
ANNOUNCE = "select pg_notify('public.outbox_events', '')"
ANY_WAITING = "select exists (select from outbox_events where published_at is null)"


class Publishing:
    name = "publisher"
    title = "Publishing an outbox to a FIFO topic"

    async def measure(self, arena: Arena) -> Sequence[Reading]:
        near = await _measured(_folder(arena, "near"), NEAR, {})
        batch = {"TOCSIN_OUTBOXES__OFFICE__BATCH": str(FAR_BATCH)}
        far = await _measured(_folder(arena, "far"), FAR, batch)
        note = f"{EVENTS:,} events for {PEOPLE:,} people, one message each, ten in a call; one relay process"
        return (
            Reading("messages published", near.rate, "/s", Goal(GOAL, least=True), note=note),
            Reading(
                f"messages published, the topic {FAR} ms away",
                far.rate,
                "/s",
                Goal(GOAL, least=True),
                note=f"with batch = {FAR_BATCH}: rows that are locked together share the wait for answers",
            ),
            Reading(
                "CPU a message, Postgres included",
                near.micros["relay"] + near.micros["Postgres"],
                "µs",
                note=", ".join(f"{name} {each:.0f}" for name, each in near.micros.items()),
            ),
            Reading("lost or published twice", near.astray + far.astray, "messages", NONE),
        )


def _folder(arena: Arena, name: str) -> Path:
    """Make a folder that the user of Postgres can enter."""
    made = arena.workdir / name
    made.mkdir()
    made.chmod(0o755)
    return made


class _Measured(NamedTuple):
    rate: float
    micros: Mapping[str, float]
    astray: int


async def _measured(workdir: Path, latency: int, environment: Mapping[str, str]) -> _Measured:
    async with (
        database(workdir) as (url, postmaster),
        application(url) as (shop_url, shop),
        _topic(workdir, latency) as (port, topic_pid),
        running(
            [sys.executable, "-m", "tocsin.cli", "relay"],
            {
                "TOCSIN_DATABASE_URL": url,
                "TOCSIN_LOG__LEVEL": "warning",
                "TOCSIN_AWS__ENDPOINT_URL": f"http://127.0.0.1:{port}",
                "TOCSIN_AWS__ACCESS_KEY_ID": "bench",
                "TOCSIN_AWS__SECRET_ACCESS_KEY": "bench",
                "TOCSIN_OUTBOXES__OFFICE__URL": shop_url,
                "TOCSIN_OUTBOXES__OFFICE__TABLE": "outbox_events",
                "TOCSIN_OUTBOXES__OFFICE__ENVELOPE": "fisa",
                "TOCSIN_OUTBOXES__OFFICE__TOPIC_ARN": TOPIC,
                **environment,
            },
            workdir / "tocsin_publisher.log",
        ) as relay,
    ):
        await shop.execute(TABLE)
        await _published(shop, WARM_UP)
        tell(f"publisher  {EVENTS:,} events wait in one outbox, the topic answers after {latency} ms")
        parts = {"relay": [relay.pid], "Postgres": [postmaster], "the topic itself": [topic_pid]}
        before = {name: cpu_seconds(pids) for name, pids in parts.items()}
        rate = await _published(shop, EVENTS)
        micros = {name: 1e6 * (cpu_seconds(pids) - before[name]) / EVENTS for name, pids in parts.items()}
        taken, distinct = await _counts(port)
    return _Measured(rate, micros, abs(WARM_UP + EVENTS - distinct) + taken - distinct)


@contextlib.asynccontextmanager
async def _topic(workdir: Path, latency: int) -> AsyncIterator[tuple[int, int]]:
    """Run the topic; give its port and its process."""
    port = free_port()
    environment = {"BENCH_PORT": str(port), "BENCH_LATENCY_MS": str(latency)}
    argv = [sys.executable, "-m", "bench.programs.topic"]
    async with running(argv, environment, workdir / "topic.log") as process:
        async with asyncio.timeout(READY_SECONDS):
            while True:
                with contextlib.suppress(ConnectionError):
                    await _counts(port)
                    break
                await asyncio.sleep(SAMPLE_SECONDS)
        yield port, process.pid


async def _counts(port: int) -> tuple[int, int]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET / HTTP/1.1\r\n\r\n")
    head = await reader.readuntil(b"\r\n\r\n")
    body = await reader.readexactly(int(head.partition(b"content-length: ")[2].split()[0]))
    writer.close()
    taken, distinct = map(int, body.split())
    return taken, distinct


async def _published(shop: asyncpg.Connection, count: int) -> float:
    """Commit events all at once; give the rate at which they went."""
    await shop.execute(WRITE, count, PEOPLE)
    await shop.execute("analyze outbox_events")
    began = time.perf_counter()
    await shop.execute(ANNOUNCE)
    await drained(lambda: shop.fetchval(ANY_WAITING))
    return count / (time.perf_counter() - began)
