"""A rate that several workers share: Expo's, counted where the messages arrive."""

import time
from collections.abc import Sequence

import asyncpg

from bench.backlog import Backlog
from bench.contract import Arena, Reading
from bench.controls import Controls
from bench.goals import AVERAGE_A_SECOND, MOST_A_SECOND, NONE
from bench.progress import tell
from bench.tocsin_server import SCHEMA, Phone, tocsin_server
from tocsin.sandbox.counters import SecondCount, Stats
from tocsin.store.pool import connection_settings

WORKERS = 4
RATE = 600
SECONDS = 20


class SharedRate:
    name = "pace"
    title = "A rate that is shared"

    async def measure(self, arena: Arena) -> Sequence[Reading]:
        controls = Controls(arena.control_url)
        async with tocsin_server(
            arena, workers=WORKERS, concurrency=20, phone_of=_phone, settings=_settings(arena)
        ) as server:
            books = await asyncpg.connect(server.database_url, server_settings=connection_settings(SCHEMA))
            backlog = Backlog(books, arena.numbers)
            tell(f"pace       {RATE * SECONDS:,} messages wait for {WORKERS} workers at {RATE}/s")
            began = time.perf_counter()
            await backlog.add(RATE * SECONDS)
            await backlog.drained()
            tell(f"pace       all are sent after {time.perf_counter() - began:.1f} s")
            await books.close()
        stats = await controls.stats("expo")
        return _readings(stats, backlog.accepted)


def _readings(stats: Stats, accepted: int) -> Sequence[Reading]:
    whole = _whole_seconds(stats.messages_per_second)
    return (
        Reading(
            "most within a second of the clock",
            max(each.count for each in stats.messages_per_second),
            "messages",
            MOST_A_SECOND,
            note=f"{WORKERS} worker processes and a rate of {RATE}/s; every message that came in is counted",
        ),
        Reading("most within any second", stats.most_messages_in_a_second, "messages", MOST_A_SECOND),
        Reading(
            "average",
            sum(whole) / len(whole),
            "/s",
            AVERAGE_A_SECOND,
            note=f"over {len(whole)} whole seconds, of {min(whole)} to {max(whole)} messages",
        ),
        Reading(
            "lost or sent twice",
            accepted - stats.distinct_deliveries + stats.duplicates,
            "messages",
            NONE,
        ),
    )


def _whole_seconds(counted: Sequence[SecondCount]) -> list[int]:
    """Give the counts between the first second and the last, which were not used from end to end."""
    counts = {each.second: each.count for each in counted}
    return [counts.get(second, 0) for second in range(counted[0].second + 1, counted[-1].second)]


def _settings(arena: Arena) -> dict[str, str]:
    return {
        "TOCSIN_EXPO__ENABLED": "true",
        "TOCSIN_EXPO__BASE_URL": arena.url,
        "TOCSIN_EXPO__CA_FILE": str(arena.ca_file),
        "TOCSIN_RATES__EXPO": str(RATE),
    }


def _phone(number: int) -> Phone:
    return Phone("expo", "android", f"ExponentPushToken[bench-{number:016x}]")
