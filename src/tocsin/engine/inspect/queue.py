"""What waits in each lane, and what leaves in each hour, in counts that read a bounded number of rows."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

import msgspec

from tocsin.engine.health.provider_health import ProviderInUse, Waiting, last_minute
from tocsin.engine.inspect.waiting import blocked_lanes
from tocsin.store.deliveries import queue as store
from tocsin.store.deliveries.fan_out import waiting_lanes
from tocsin.store.deliveries.queue import Bucket, LaneDepth
from tocsin.store.health.provider_health import CountRow, counts_since
from tocsin.store.pool import Connection

MOST_COUNTED = 50_000
LONGEST_AHEAD = 14 * 24

_HOUR = timedelta(hours=1)
_RATE_OVER = timedelta(minutes=2)
# All hours are counted to the first number; those that have more share the second.
_FIRST_COUNT = 1_000
_ALL_COUNTS = 150_000
_MOST_READ = 1_000
"""How many deliveries are read for their types, in all hours together."""


class LaneQueue(msgspec.Struct, frozen=True, kw_only=True):
    """What waits in a lane, and how fast it is sent.

    `due` is to be sent now, with what is being sent; `scheduled` is due later, `held` has no time yet.
    Counting ends at 50,000, then there may be more. `blocked_by` is why nothing of it is sent at present.
    """

    lane: str
    due: Waiting
    oldest_due_at: datetime | None
    oldest_age_seconds: float | None
    scheduled: Waiting
    held: Waiting
    sent_per_second: float
    attempts_per_second: float
    blocked_by: str | None


class Queue(msgspec.Struct, frozen=True):
    """The lanes of the providers in use, and all others in which something waits."""

    now: datetime
    lanes: list[LaneQueue]


class ScheduledType(msgspec.Struct, frozen=True):
    """How many deliveries of a type leave in an hour; those whose type is not known have none."""

    type: str | None
    count: int


class ScheduledHour(msgspec.Struct, frozen=True, kw_only=True):
    """What leaves in the hour that begins at a time.

    Where it has many, the counts by type are `estimated` from some of them, drawn at random.
    """

    begins: datetime
    count: Waiting
    types: list[ScheduledType]
    estimated: bool


class Schedule(msgspec.Struct, frozen=True, kw_only=True):
    """What leaves in each hour from now on; `later` is what is due after the last hour that was asked for."""

    now: datetime
    hours: list[ScheduledHour]
    later: Waiting


async def read_queue(connection: Connection, in_use: Iterable[ProviderInUse], now: datetime) -> Queue:
    """Count what waits in each lane."""
    async with connection.transaction(isolation="repeatable_read", readonly=True):
        known = dict.fromkeys(provider.name for provider in in_use)
        lanes = list(known | dict.fromkeys(await waiting_lanes(connection)))
        depths = await store.depths(connection, lanes, now, MOST_COUNTED + 1)
        counts = await counts_since(connection, now - _RATE_OVER)
        blocked = await blocked_lanes(connection)
    return Queue(
        now,
        [
            _lane(depth, [row for row in counts if row.provider == depth.lane], blocked, now)
            for depth in depths
        ],
    )


async def read_schedule(connection: Connection, hours: int, now: datetime) -> Schedule:
    """Count what leaves in each of the next hours, by type."""
    this_hour = now.replace(minute=0, second=0, microsecond=0)
    async with connection.transaction(isolation="repeatable_read", readonly=True):
        lanes = await waiting_lanes(connection)
        asked = [Bucket(lane, this_hour + number * _HOUR) for lane in lanes for number in range(hours)]
        counts, most = await _count(connection, asked, now)
        share = max(1, _MOST_READ // max(len(counts), 1))
        every = {bucket: -(-min(count, most) // share) for bucket, count in counts.items()}
        drawn = await store.types_in_hours(connection, every, now, most)
        end = this_hour + hours * _HOUR
        later = sum(row.later for row in await store.depths(connection, lanes, end, MOST_COUNTED + 1))
    types: defaultdict[Bucket, Counter[str | None]] = defaultdict(Counter)
    for row in drawn:
        types[Bucket(row.lane, row.begins)][row.type] += row.count
    return Schedule(
        now=now,
        hours=[
            _hour(
                begins, {bucket: counts[bucket] for bucket in counts if bucket.begins == begins}, most, types
            )
            for begins in sorted({bucket.begins for bucket in counts})
        ],
        later=_waiting(later),
    )


async def _count(connection: Connection, asked: list[Bucket], now: datetime) -> tuple[dict[Bucket, int], int]:
    """Count each hour of each lane up to a number, which is larger the fewer have so many; return it too."""
    counts = await store.count_in_hours(connection, asked, now, _FIRST_COUNT + 1)
    full = [bucket for bucket, count in counts.items() if count > _FIRST_COUNT]
    if not full:
        return counts, _FIRST_COUNT
    most = max(_FIRST_COUNT, _ALL_COUNTS // len(full))
    return counts | await store.count_in_hours(connection, full, now, most + 1), most


def _hour(
    begins: datetime,
    counts: Mapping[Bucket, int],
    most: int,
    drawn: Mapping[Bucket, Counter[str | None]],
) -> ScheduledHour:
    total, types = 0, Counter[str | None]()
    for bucket, count in counts.items():
        counted = min(count, most)
        total += counted
        types.update(_scaled(drawn.get(bucket, Counter()), counted))
    return ScheduledHour(
        begins=begins,
        count=Waiting(total, or_more=any(count > most for count in counts.values())),
        types=[ScheduledType(name, count) for name, count in types.most_common()],
        estimated=any(
            min(count, most) != drawn.get(bucket, Counter()).total() for bucket, count in counts.items()
        ),
    )


def _scaled(drawn: Counter[str | None], total: int) -> Counter[str | None]:
    """Scale counts of what was drawn to a total; the most frequent type takes what rounding leaves."""
    if not drawn:
        return Counter({None: total})
    size = drawn.total()
    scaled = Counter({name: total * count // size for name, count in drawn.items()})
    (most_frequent, _), *_ = drawn.most_common(1)
    scaled[most_frequent] += total - scaled.total()
    return scaled


def _lane(depth: LaneDepth, counts: list[CountRow], blocked: dict[str, str], now: datetime) -> LaneQueue:
    oldest = depth.oldest_due_at
    sent = (row for row in counts if row.outcome == "sent")
    return LaneQueue(
        lane=depth.lane,
        due=_waiting(depth.due),
        oldest_due_at=oldest,
        oldest_age_seconds=None if oldest is None else round((now - oldest).total_seconds(), 3),
        scheduled=_waiting(depth.later),
        held=_waiting(depth.held),
        sent_per_second=round(last_minute(sent, now) / 60, 2),
        attempts_per_second=round(last_minute(counts, now) / 60, 2),
        blocked_by=blocked.get(depth.lane),
    )


def _waiting(count: int) -> Waiting:
    return Waiting(min(count, MOST_COUNTED), or_more=count > MOST_COUNTED)
