"""One provider down at full load: what that does to another, and what becomes of what was meant for it."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Iterator, Sequence

import asyncpg
import msgspec

from bench.backlog import Backlog
from bench.contract import Arena, Reading
from bench.controls import Controls
from bench.goals import NONE, RATE_BESIDE_AN_OUTAGE
from bench.process import ProgramFailedError
from bench.progress import tell
from bench.tocsin_server import SCHEMA, Phone, android, tocsin_server
from tocsin.sandbox.apns.provider_token import KEY_ID, TEAM_ID
from tocsin.sandbox.counters import SecondCount
from tocsin.sandbox.faults.rules import Outage
from tocsin.store.pool import connection_settings

WORKERS = 2
CONCURRENCY = 200
"""Messages under way to each provider from each worker."""
BACKLOG = 10_000
"""Messages that wait for each provider at full load."""
WARM_UP = 5_000
CATCHING_UP_LOAD = 0.5
"""Share of the full load that goes on coming while the messages held back are sent as well."""
POLL_SECONDS = 0.1

DOWN, OTHER = "fcm", "apns"

BOOKS = """
select
    count(*) filter (where state = 'sent') as sent,
    coalesce(sum(attempts) filter (where state = 'sent'), 0) as attempts,
    max(attempts) as most_attempts
from deliveries
"""


class Phase(msgspec.Struct, frozen=True):
    """What came through in one stretch of time."""

    seconds: float
    down: int
    other: int
    requests_to_down: int
    slowest_second: int
    """The fewest messages that the other provider took within a whole second."""

    @property
    def rate(self) -> float:
        """Give the messages a second of the provider that is never down."""
        return self.other / self.seconds


class ProviderDown:
    name = "outage"
    title = "One provider down"

    def __init__(self, seconds: float = 60.0) -> None:
        self._seconds = seconds

    async def measure(self, arena: Arena) -> Sequence[Reading]:
        async with contextlib.AsyncExitStack() as stack:
            server = await stack.enter_async_context(
                tocsin_server(
                    arena,
                    workers=WORKERS,
                    concurrency=CONCURRENCY,
                    phone_of=_phone,
                    settings=apns_settings(arena, CONCURRENCY),
                )
            )
            books = await asyncpg.connect(server.database_url, server_settings=connection_settings(SCHEMA))
            stack.push_async_callback(books.close)
            run = _Run(Controls(arena.control_url), Backlog(books, arena.numbers))
            return await self._phases(run, books)

    async def _phases(self, run: "_Run", books: asyncpg.Connection) -> Sequence[Reading]:
        # Calm before and after: a machine that grows slower or faster meanwhile favours neither.
        async with run.full_load():
            before = await run.phase("before the outage", self._seconds / 2)
            outage = await run.phase("in the outage", self._seconds, Outage(seconds=self._seconds))
        coming = before.rate * CATCHING_UP_LOAD
        async with run.load(2 * coming):
            recovered = await run.recovered()
            catching_up = await run.phase("while FCM catches up", self._seconds / 2)
        await run.drained()
        async with run.full_load():
            after = await run.phase("after the outage", self._seconds / 2)
        await run.drained()
        return [
            *_rates(before, outage, after),
            Reading(
                "APNs while FCM catches up",
                catching_up.rate / coming,
                "times",
                RATE_BESIDE_AN_OUTAGE,
                note=f"of {coming:,.0f} messages that come for it a second, {CATCHING_UP_LOAD:.0%} of what "
                f"it took before; FCM takes {catching_up.down / catching_up.seconds:,.0f}/s",
            ),
            Reading("requests to FCM in the outage", outage.requests_to_down, "in all"),
            Reading("from its end until FCM takes messages", recovered, "s"),
            *await run.fates(books),
        ]


def _rates(before: Phase, outage: Phase, after: Phase) -> Iterator[Reading]:
    calm_seconds = before.seconds + after.seconds
    calm = (before.other + after.other) / calm_seconds
    yield Reading(
        "APNs while all is well",
        calm,
        "/s",
        note=f"{before.rate:,.0f}/s before the outage and {after.rate:,.0f}/s after it; "
        f"{min(before.slowest_second, after.slowest_second):,} in the slowest second",
    )
    yield Reading(
        "APNs while FCM answers 503",
        outage.rate,
        "/s",
        note=f"for {outage.seconds:.0f} s; {outage.slowest_second:,} in the slowest second",
    )
    yield Reading("APNs beside the outage", outage.rate / calm, "times", RATE_BESIDE_AN_OUTAGE)
    yield Reading("FCM while all is well", (before.down + after.down) / calm_seconds, "/s")


class _Run:
    def __init__(self, controls: Controls, backlog: Backlog) -> None:
        self.controls = controls
        self.backlog = backlog

    @contextlib.asynccontextmanager
    async def full_load(self) -> AsyncIterator[None]:
        """Keep a backlog for both, and wait until both get their share of it."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.backlog.keep_full((DOWN, OTHER), BACKLOG))
            for provider in (DOWN, OTHER):
                await self._takes(provider, WARM_UP)
            yield
            self.backlog.enough()

    @contextlib.asynccontextmanager
    async def load(self, rate: float) -> AsyncIterator[None]:
        """Let so many messages a second come, for both together."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.backlog.keep_coming(rate))
            yield
            self.backlog.enough()

    async def phase(self, name: str, seconds: float, outage: Outage | None = None) -> Phase:
        """Let it run for a while, with a fault or without, and see what came through."""
        self.backlog.shortest()
        down, other = await self.controls.stats(DOWN), await self.controls.stats(OTHER)
        began = time.perf_counter()
        if outage:
            await self.controls.put_up(DOWN, outage)
        await asyncio.sleep(seconds)
        ended = time.perf_counter()
        down_after, other_after = await self.controls.stats(DOWN), await self.controls.stats(OTHER)
        shortest = self.backlog.shortest()
        if shortest == 0:
            raise ProgramFailedError(f"the backlog ran dry {name}: the load was not full")
        phase = Phase(
            seconds=ended - began,
            down=down_after.delivered - down.delivered,
            other=other_after.delivered - other.delivered,
            requests_to_down=down_after.requests - down.requests,
            slowest_second=_slowest(other.per_second, other_after.per_second),
        )
        tell(
            f"outage     {name}: APNs {phase.rate:,.0f}/s, FCM {phase.down / phase.seconds:,.0f}/s in "
            f"{phase.requests_to_down:,} requests"
        )
        return phase

    async def recovered(self) -> float:
        """Tell how long after the outage the first message came through."""
        began = time.perf_counter()
        await self._takes(DOWN, 1)
        seconds = time.perf_counter() - began
        tell(f"outage     FCM takes messages again after {seconds:.1f} s")
        return seconds

    async def drained(self) -> None:
        """Wait until nothing waits any more."""
        began = time.perf_counter()
        await self.backlog.drained()
        tell(f"outage     nothing waits any more after {time.perf_counter() - began:.1f} s")

    async def fates(self, books: asyncpg.Connection) -> Sequence[Reading]:
        """Tell what became of every message, by Tocsin's books and by the sandbox's counts."""
        settled = await books.fetchrow(BOOKS)
        both = await self.controls.stats(DOWN), await self.controls.stats(OTHER)
        arrived = sum(each.distinct_deliveries for each in both)
        return [
            Reading(
                "attempts spent on the outage",
                settled["attempts"] - settled["sent"],
                "in all",
                note=f"of {settled['sent']:,} deliveries, at most {settled['most_attempts']} for one",
            ),
            Reading("lost", self.backlog.accepted - min(settled["sent"], arrived), "messages", NONE),
            Reading("sent twice", sum(each.duplicates for each in both), "messages", NONE),
        ]

    async def _takes(self, provider: str, count: int) -> None:
        """Wait until a stand-in has taken so many more messages."""
        due = (await self.controls.stats(provider)).delivered + count
        # The control API has no way to wait.
        while (await self.controls.stats(provider)).delivered < due:  # noqa: ASYNC110
            await asyncio.sleep(POLL_SECONDS)


def apns_settings(arena: Arena, concurrency: int) -> dict[str, str]:
    """Set up APNs to be sent to the sandbox."""
    return {
        "TOCSIN_APNS__KEY_FILE": str(arena.apns_key_file),
        "TOCSIN_APNS__KEY_ID": KEY_ID,
        "TOCSIN_APNS__TEAM_ID": TEAM_ID,
        "TOCSIN_APNS__TOPIC": "com.example.shop",
        "TOCSIN_APNS__BASE_URL": arena.url,
        "TOCSIN_APNS__CA_FILE": str(arena.ca_file),
        "TOCSIN_APNS__MAX_CONCURRENCY": str(concurrency),
    }


def _phone(number: int) -> Phone:
    """Give every second person a phone of Apple's."""
    return Phone(OTHER, "ios", f"{number:064x}") if number % 2 else android(number)


def _slowest(before: Sequence[SecondCount], after: Sequence[SecondCount]) -> int:
    """Look at the whole seconds in between; one without any message is not listed at all."""
    first, last = before[-1].second + 1, after[-1].second - 1
    counts = {each.second: each.count for each in after}
    return min((counts.get(second, 0) for second in range(first, last + 1)), default=0)
