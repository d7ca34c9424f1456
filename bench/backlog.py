"""A backlog that does not run dry: deliveries as accepting leaves them, put in by the database itself."""

import asyncio
import time
from collections.abc import Sequence

import asyncpg

from bench.process import ProgramFailedError

CHUNK = 5_000
LOOK_SECONDS = 0.2
PATIENCE_SECONDS = 120.0

ADD = """
with accepted as (
    insert into notifications (
        id, producer, idempotency_key, fingerprint, type, version, audience, payload, accepted_at, expires_at
    )
    select
        uuidv7(), 'bench', 'key-' || number, '\\x00', 'new_customer', 2,
        jsonb_build_object('users', jsonb_build_array('user-' || number % $3)),
        jsonb_build_object('customer_name', 'Customer ' || number),
        now(), now() + interval '1 day'
    from generate_series($1::integer, $1 + $2::integer - 1) as number
    returning id, audience -> 'users' ->> 0 as user_id, accepted_at
),
planned as (
    insert into deliveries (id, notification_id, channel, lane, user_id, state, due_at, created_at)
    select
        uuidv7(), id, 'push',
        (select provider from devices as d where d.user_id = accepted.user_id and retired_at is null limit 1),
        user_id, 'pending', accepted_at, accepted_at
    from accepted
    returning lane
)
select count(*), pg_notify(current_schema() || '_due', string_agg(distinct lane, ','))
from planned
"""

# A provider that is down leaves its own lane full: each lane is counted by itself.
FEWEST_DUE = """
select min((
    select count(*)
    from (
        select
        from deliveries
        where deliveries.lane = lanes.lane
            and state in ('scheduled', 'pending', 'retrying')
            and due_at <= now()
            and leased_until is null
        limit $2
    ) as due
))
from unnest($1::text[]) as lanes (lane)
"""

UNSETTLED = "select count(*) from deliveries where state in ('scheduled', 'pending', 'retrying')"


class Backlog:
    """Deliveries to the users `user-0` to `user-{people - 1}` in turn."""

    def __init__(self, connection: asyncpg.Connection, people: int) -> None:
        self._connection = connection
        self._people = people
        self._turn = asyncio.Lock()
        self.accepted = 0
        self._looks: list[int] = []
        self._enough = asyncio.Event()

    async def add(self, count: int) -> None:
        """Put in some deliveries that are due now."""
        async with self._turn:
            await self._connection.fetchval(ADD, self.accepted, count, self._people)
        self.accepted += count

    async def keep_full(self, lanes: Sequence[str], floor: int) -> None:
        """Keep about a number of deliveries due in each lane, until told that it is enough."""
        self._enough.clear()
        while not self._enough.is_set():
            async with self._turn:
                due = int(await self._connection.fetchval(FEWEST_DUE, lanes, floor))
            self._looks.append(due)
            if due < floor:
                await self.add(CHUNK)
            else:
                await asyncio.sleep(LOOK_SECONDS)

    async def keep_coming(self, rate: float) -> None:
        """Put in so many deliveries a second, whatever becomes of them, until told that it is enough."""
        self._enough.clear()
        began, before = time.perf_counter(), self.accepted
        while not self._enough.is_set():
            due = int(rate * (time.perf_counter() - began)) - (self.accepted - before)
            if due > 0:
                await self.add(due)
            await asyncio.sleep(LOOK_SECONDS)

    def enough(self) -> None:
        """Let nothing more be put in; what is under way is put in whole, so that the count stays true."""
        self._enough.set()

    def shortest(self) -> int | None:
        """Return the fewest deliveries found due in any lane since the last call, if any were counted."""
        looks, self._looks = self._looks, []
        return min(looks, default=None)

    async def drained(self) -> None:
        """Wait until every delivery is settled."""
        fewest, since = self.accepted + 1, time.perf_counter()
        while left := int(await self._connection.fetchval(UNSETTLED)):
            if left < fewest:
                fewest, since = left, time.perf_counter()
            if time.perf_counter() - since > PATIENCE_SECONDS:
                raise ProgramFailedError(
                    f"{left} deliveries still wait, and no fewer than {PATIENCE_SECONDS:.0f} s ago; "
                    "--keep-logs shows why"
                )
            await asyncio.sleep(LOOK_SECONDS)
