"""Limits: how many messages a person and a device get, by day, category and type."""

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta, tzinfo
from functools import lru_cache
from typing import Annotated, Literal
from uuid import UUID

import msgspec
from msgspec import Meta

from tocsin.domain.catalog import NotificationType
from tocsin.domain.decide import Skip, Step, Wait
from tocsin.domain.delivery.reasons import Reason
from tocsin.domain.timing.days import next_local_day, throttle_window

Beyond = Literal["skip", "defer"]
DailyCount = Annotated[int, Meta(ge=1, le=100_000)]


class LimitsSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The most a person, a device and a category get in the person's own day; nothing set means no limit.

    `beyond` is what becomes of the rest: skipped with the reason, or deferred to the next day.
    """

    per_person_per_day: DailyCount | None = None
    per_device_per_day: DailyCount | None = None
    categories: dict[str, DailyCount] = {}
    beyond: Beyond = "skip"


class Allowance(msgspec.Struct, frozen=True, kw_only=True):
    """How many messages one window allows, and what becomes of the one too many."""

    key: str
    limit: int
    ends_at: datetime
    reason: Reason
    beyond: Beyond
    detail: str


def person_allowances(
    settings: LimitsSettings, kind: NotificationType, user_id: str, zone: tzinfo, now: datetime
) -> Iterator[Allowance]:
    """List the limits that a notification to a person counts against."""
    limit = settings.categories.get(kind.category)
    if settings.per_person_per_day is not None or limit is not None:
        day_ends = _day_end(now, zone)
        if settings.per_person_per_day is not None:
            yield _daily(f"person:{user_id}", settings.per_person_per_day, day_ends, settings, "a person")
        if limit is not None:
            key = _category_key(kind.category, user_id)
            yield _daily(key, limit, day_ends, settings, f"a person in {kind.category!r}")
    throttle = kind.policies.throttle
    if throttle is not None:
        _, ends_at = throttle_window(now, throttle.per)
        yield Allowance(
            key=_type_key(kind.name, user_id),
            limit=throttle.limit,
            ends_at=ends_at,
            reason=Reason.THROTTLED,
            beyond=throttle.beyond,
            detail=f"{throttle.limit} of {kind.name} in {_length(throttle.per)}",
        )


def device_allowances(
    settings: LimitsSettings, device_id: UUID, zone: tzinfo, now: datetime
) -> Iterator[Allowance]:
    """List the limits that a push to a device counts against besides."""
    if settings.per_device_per_day is not None:
        day_ends = _day_end(now, zone)
        yield _daily(device_key(device_id), settings.per_device_per_day, day_ends, settings, "a device")


def person_keys(types: Iterable[NotificationType], user_id: str) -> set[str]:
    """Return the keys that count what a person got, of every type and category."""
    return {f"person:{user_id}", f"receipts:{user_id}"} | {
        key
        for each in types
        for key in (_category_key(each.category, user_id), _type_key(each.name, user_id))
    }


def device_key(device_id: UUID) -> str:
    """Return the key that counts what a device got."""
    return f"device:{device_id}"


def limit_verdict(full: Allowance, now: datetime) -> Wait | Skip:
    """Return the verdict on a delivery for which a limit has no place left, by the policy of the limit."""
    if full.beyond == "defer":
        step = Step(rule="limit", result="hold", detail=full.detail, at=now, until=full.ends_at)
        return Wait((step,), full.ends_at)
    return Skip((Step(rule="limit", result="skip", detail=full.detail, at=now),), full.reason)


def _day_end(now: datetime, zone: tzinfo) -> datetime:
    """Return when a person's day ends, computed once for each zone and quarter of an hour."""
    quarter = now.replace(minute=now.minute // 15 * 15, second=0, microsecond=0)
    end = _computed_day_end(quarter, zone)
    return end if end > now else next_local_day(now, zone)


_computed_day_end = lru_cache(maxsize=4096)(next_local_day)


def _daily(key: str, limit: int, ends_at: datetime, settings: LimitsSettings, whose: str) -> Allowance:
    return Allowance(
        key=key,
        limit=limit,
        ends_at=ends_at,
        reason=Reason.DAILY_LIMIT,
        beyond=settings.beyond,
        detail=f"{limit} a day for {whose}",
    )


def _category_key(category: str, user_id: str) -> str:
    return f"category:{category}:{user_id}"


def _type_key(type_name: str, user_id: str) -> str:
    return f"type:{type_name}:{user_id}"


def _length(span: timedelta) -> str:
    seconds = int(span.total_seconds())
    for size, name in ((86_400, "d"), (3_600, "h"), (60, "m")):
        if seconds % size == 0:
            return f"{seconds // size}{name}"
    return f"{seconds}s"
