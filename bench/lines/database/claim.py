"""What a claim costs the database, with a short backlog and with a long one."""

import gc
import time
from collections.abc import Sequence
from datetime import timedelta

import asyncpg
import psutil

from bench.contract import Arena, Goal, Reading
from bench.tocsin_server import database
from tocsin.domain.ids import new_lease_id
from tocsin.engine.clock import utc_now
from tocsin.store.deliveries.claim import START, Position, claim
from tocsin.store.deliveries.settle import SentDelivery, settle_sent
from tocsin.store.migrate import migrate
from tocsin.store.pool import LOOKUPS_ONLY, PoolSettings, connection_settings

BACKLOGS = {"short": 10_000, "long": 1_000_000}
LANE = "fcm"
BATCH = 100
TURNS = 80
WARM_UP = 10

FILL = """
insert into users (user_id, updated_at)
select 'user-' || number, now() from generate_series(1, 10000) as number;

insert into devices (id, user_id, provider, platform, token, token_hash, registered_at, last_seen_at)
select uuidv7(), 'user-' || number, 'fcm', 'android', 'token-' || number, int4send(number), now(), now()
from generate_series(1, 10000) as number;

insert into notifications (
    id, producer, idempotency_key, fingerprint, type, version, audience, payload, accepted_at
)
select
    uuidv7(), 'bench', 'key-' || number, '\\x00', 'new_customer', 2, '{"users": ["user-1"]}',
    '{"customer_name": "Ali Veli"}', now() - interval '1 hour' + number * interval '1 millisecond'
from generate_series(1, :count) as number;

insert into deliveries (id, notification_id, channel, lane, user_id, state, due_at, created_at)
select
    uuidv7(), id, 'push', 'fcm', 'user-' || (1 + row_number() over (order by id) % 10000), 'pending',
    accepted_at, accepted_at
from notifications
order by id;

vacuum analyze;
"""


class _Backlog:
    """A schema with waiting deliveries, and the cost of the claims made on it."""

    def __init__(self, connection: asyncpg.Connection, backend: psutil.Process) -> None:
        self._connection = connection
        self._backend = backend
        self._after: Position = START
        self.cpu = 0.0
        self.wall = 0.0
        self.claimed = 0

    async def turn(self, *, counted: bool) -> None:
        now, lease = utc_now(), new_lease_id()
        cpu, wall = _busy(self._backend), time.perf_counter()
        claimed = await claim(
            self._connection,
            LANE,
            lease=lease,
            now=now,
            until=now + timedelta(minutes=1),
            after=self._after,
            limit=BATCH,
        )
        cpu, wall = _busy(self._backend) - cpu, time.perf_counter() - wall
        self._after = Position(claimed[-1].due_at, claimed[-1].id)
        if counted:
            self.cpu += cpu
            self.wall += wall
            self.claimed += len(claimed)
        # What was claimed is settled, uncounted, so that dead index entries pile up as they do in life.
        await settle_sent(
            self._connection,
            [SentDelivery(id=row.id, lease=lease, provider=LANE, message_id="m") for row in claimed],
            now,
        )


class ClaimCost:
    name = "claim"
    title = "Claiming"

    async def measure(self, arena: Arena) -> Sequence[Reading]:
        async with database(arena.workdir) as (url, _):
            backlogs = {name: await _filled(url, name, count) for name, count in BACKLOGS.items()}
            gc.collect()
            gc.freeze()  # As a worker does, or one full collection falls into either backlog's share.
            for number in range(WARM_UP + TURNS):
                for backlog in backlogs.values():
                    await backlog.turn(counted=number >= WARM_UP)
        short, long = backlogs["short"], backlogs["long"]
        micros = {name: each.wall / each.claimed * 1e6 for name, each in backlogs.items()}
        return (
            Reading(f"a claim at {BACKLOGS['short']:,} waiting", micros["short"], "µs"),
            Reading(f"a claim at {BACKLOGS['long']:,} waiting", micros["long"], "µs"),
            Reading(
                "long against short backlog",
                (long.wall / long.claimed) / (short.wall / short.claimed),
                "times",
                Goal(1.3, least=False),
                note=f"in batches of {BATCH}, taken in turns",
            ),
        )


async def _filled(url: str, schema: str, count: int) -> _Backlog:
    await migrate(url, schema, PoolSettings())
    connection = await asyncpg.connect(url, server_settings=connection_settings(schema) | LOOKUPS_ONLY)
    await connection.execute("set enable_seqscan = on")
    for statement in FILL.replace(":count", str(count)).split(";\n"):
        if statement.strip():
            await connection.execute(statement)
    await connection.execute("set enable_seqscan = off")
    backend = psutil.Process(await connection.fetchval("select pg_backend_pid()"))
    return _Backlog(connection, backend)


def _busy(backend: psutil.Process) -> float:
    times = backend.cpu_times()
    return float(times.user + times.system)
