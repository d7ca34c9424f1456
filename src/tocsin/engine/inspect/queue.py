"""What waits in each lane, and what leaves in each hour, in counts that read a bounded number of rows."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import TypeVar

import msgspec

from tocsin.domain.timing.zones import ZoneChoice, choose_zone
from tocsin.engine.health.provider_health import ProviderInUse, Waiting, last_minute
from tocsin.engine.inspect.waiting import blocked_lanes
from tocsin.store.deliveries import queue as store
from tocsin.store.deliveries.fan_out import waiting_lanes
from tocsin.store.deliveries.queue import Bucket, DrawnCount, LaneDepth
from tocsin.store.health.provider_health import CountRow, counts_since
from tocsin.store.pool import Connection

T = TypeVar("T")

MOST_COUNTED = 50_000

_HOUR = timedelta(hours=1)
_RATE_OVER = timedelta(minutes=2)
# All hours are counted to the first number; those that have more share the second.
_FIRST_COUNT = 1_000
_ALL_COUNTS = 100_000
_MOST_READ = 1_000
"""How many deliveries are read for their types and zones, in all hours together."""


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


class ScheduledZone(msgspec.Struct, frozen=True):
    """How many deliveries leave in an hour for people of a time zone, and the local time when it begins.

    A zone is that of the device used last, of the directory, or the default; it may be an offset from UTC.
    """

    zone: str
    local_time: datetime
    count: int


class ScheduledHour(msgspec.Struct, frozen=True, kw_only=True):
    """What leaves in the hour that begins at a time.

    Where it has many, the counts by type and zone are `estimated` from some of them, drawn at random.
    """

    begins: datetime
    count: Waiting
    types: list[ScheduledType]
    zones: list[ScheduledZone]
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


async def read_schedule(
    connection: Connection, hours: int, now: datetime, default_zone: str | None = None
) -> Schedule:
    """Count what leaves in each of the next hours, by type and zone; `default_zone` is for the others."""
    this_hour = now.replace(minute=0, second=0, microsecond=0)
    async with connection.transaction(isolation="repeatable_read", readonly=True):
        lanes = await waiting_lanes(connection)
        asked = [Bucket(lane, this_hour + number * _HOUR) for lane in lanes for number in range(hours)]
        counts, most = await _count(connection, asked, now)
        share = max(1, _MOST_READ // max(len(counts), 1))
        every = {bucket: -(-min(count, most) // share) for bucket, count in counts.items()}
        rows = await store.drawn_in_hours(connection, every, now, most)
        end = this_hour + hours * _HOUR
        later = await store.count_later(connection, lanes, end, MOST_COUNTED + 1)
    drawn: defaultdict[Bucket, _Drawn] = defaultdict(_Drawn)
    for row in rows:
        drawn[Bucket(row.lane, row.begins)].add(row, default_zone or "UTC")
    of_hours: defaultdict[datetime, dict[Bucket, int]] = defaultdict(dict)
    for bucket, count in counts.items():
        of_hours[bucket.begins][bucket] = count
    return Schedule(
        now=now,
        hours=[_hour(begins, of_hours[begins], most, drawn) for begins in sorted(of_hours)],
        later=_waiting(later),
    )


class _Drawn:
    """The types and zones of what was drawn of an hour of a lane."""

    def __init__(self) -> None:
        self.types: Counter[str | None] = Counter()
        self.zones: Counter[ZoneChoice] = Counter()

    def add(self, row: DrawnCount, default_zone: str) -> None:
        self.types[row.type] += row.count
        zone = choose_zone(row.device_timezone, row.timezone, row.gmt_offset_seconds, default_zone)
        # People of one zone may have it from different sources.
        same = msgspec.structs.replace(zone, source="default", unknown=())
        self.zones[same] += row.count


async def _count(connection: Connection, asked: list[Bucket], now: datetime) -> tuple[dict[Bucket, int], int]:
    """Count each hour of each lane up to a number, which is larger the fewer have so many; return it too."""
    counts = await store.count_in_hours(connection, asked, now, _FIRST_COUNT + 1)
    full = [bucket for bucket, count in counts.items() if count > _FIRST_COUNT]
    if not full:
        return counts, _FIRST_COUNT
    most = max(_FIRST_COUNT, _ALL_COUNTS // len(full))
    return counts | await store.count_in_hours(connection, full, now, most + 1), most


def _hour(
    begins: datetime, counts: Mapping[Bucket, int], most: int, drawn: Mapping[Bucket, _Drawn]
) -> ScheduledHour:
    total, types, zones = 0, Counter[str | None](), Counter[ZoneChoice | None]()
    estimated = False
    for bucket, count in counts.items():
        counted, known = min(count, most), drawn.get(bucket, _Drawn())
        total += counted
        types.update(_scaled(known.types, counted))
        zones.update(_scaled(known.zones, counted))
        estimated = estimated or counted != known.types.total()
    return ScheduledHour(
        begins=begins,
        count=Waiting(total, or_more=any(count > most for count in counts.values())),
        types=[ScheduledType(name, count) for name, count in types.most_common()],
        zones=[
            ScheduledZone(zone.name, begins.astimezone(zone.zone), count)
            for zone, count in zones.most_common()
            if zone is not None
        ],
        estimated=estimated,
    )


def _scaled(drawn: Counter[T], total: int) -> Counter[T | None]:
    """Scale counts of what was drawn to a total; the most frequent takes what rounding leaves."""
    if not drawn:
        return Counter({None: total})
    size = drawn.total()
    scaled: Counter[T | None] = Counter({each: total * count // size for each, count in drawn.items()})
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
