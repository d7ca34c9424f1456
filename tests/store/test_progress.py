"""The rows of periodic producers: one lease at a time, and nothing moves under an old one."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.rows import NOW
from tocsin.domain.ids import new_lease_id
from tocsin.domain.timing.schedule import CatchUp, Schedule, ValueType
from tocsin.store.pool import Pool
from tocsin.store.sources import progress
from tocsin.store.sources.progress import Counts, ProgressRow, Scheduled

MINUTE = timedelta(minutes=1)


async def register(
    pool: Pool,
    *,
    catch_up: CatchUp = "last",
    value_type: ValueType | None = "bigint",
    next_run_at: datetime = NOW,
    now: datetime = NOW,
) -> None:
    scheduled = Scheduled(
        name="feed",
        kind="scan",
        schedule=Schedule("*/15 * * * *", "UTC", catch_up),
        value_type=value_type,
        initial=7,
    )
    await progress.register(pool, scheduled, next_run_at=next_run_at, now=now)


async def the_row(pool: Pool) -> ProgressRow:
    [row] = await progress.list_progress(pool)
    return row


async def begin(pool: Pool, **changes: Any) -> Any:
    given: dict[str, Any] = {
        "seen_next": NOW,
        "lease": new_lease_id(),
        "until": NOW + MINUTE,
        "now": NOW,
    } | changes
    return await progress.begin(pool, "feed", **given)


async def test_a_registration_keeps_what_is_known(pool: Pool) -> None:
    await register(pool)
    await progress.rewind(pool, "feed", 9)

    await register(pool, catch_up="all", next_run_at=NOW + MINUTE, now=NOW + MINUTE)

    row = await the_row(pool)
    assert (row.last_value, row.next_run_at, row.catch_up, row.seen_at) == (9, NOW, "all", NOW + MINUTE)


async def test_one_lease_at_a_time(pool: Pool) -> None:
    await register(pool)
    first, second = new_lease_id(), new_lease_id()

    assert await begin(pool, lease=first) is not None
    assert await begin(pool, lease=second) is None
    assert await begin(pool, lease=second, now=NOW + MINUTE, until=NOW + 2 * MINUTE) is not None

    assert not await progress.advance(pool, "feed", first, NOW + MINUTE)
    assert not await progress.advance(pool, "feed", first, NOW + MINUTE, 8)
    assert not await progress.succeed(pool, "feed", first, next_run_at=NOW + MINUTE, now=NOW)
    assert await progress.fail(pool, "feed", first, retry_at=NOW, error="x") is None
    await progress.count(pool, "feed", first, Counts(1, 1, 1))
    await progress.release(pool, "feed", first)
    row = await the_row(pool)
    assert (row.lease, row.last_value, row.status, row.failures, row.accepted) == (second, 7, "running", 0, 0)


async def test_a_run_that_is_over_cannot_begin_again(pool: Pool) -> None:
    """Whoever looked before the run was done still holds its time in hand."""
    await register(pool)
    lease = new_lease_id()
    await begin(pool, lease=lease)
    await progress.succeed(pool, "feed", lease, next_run_at=NOW + MINUTE, now=NOW)

    assert await begin(pool, now=NOW + 2 * MINUTE) is None
    assert not await progress.skip(pool, "feed", seen_next=NOW, to=NOW)
    assert (await the_row(pool)).next_run_at == NOW + MINUTE


async def test_what_is_not_due_does_not_begin_unless_asked_for(pool: Pool) -> None:
    later = NOW + MINUTE
    await register(pool, next_run_at=later)
    assert await begin(pool, seen_next=later) is None

    assert await progress.request_run(pool, "feed", NOW)
    lease = new_lease_id()
    assert await begin(pool, seen_next=later, lease=lease) is not None

    assert await progress.request_run(pool, "feed", NOW + timedelta(seconds=1))
    await progress.succeed(pool, "feed", lease, next_run_at=later, now=NOW)
    assert (await the_row(pool)).run_requested_at is not None


@pytest.mark.parametrize("value", [None, 0, "text", {"a": [1, 2]}, "2026-01-01T00:00:00Z"])
async def test_a_checkpoint_is_any_json(pool: Pool, value: Any) -> None:
    await register(pool, value_type=None)
    lease = new_lease_id()
    await begin(pool, lease=lease)

    assert await progress.advance(pool, "feed", lease, NOW + MINUTE, value)
    assert await progress.advance(pool, "feed", lease, NOW + MINUTE)

    assert (await the_row(pool)).last_value == value


async def test_an_error_is_kept_as_far_as_it_can_be_stored(pool: Pool) -> None:
    await register(pool)
    lease = new_lease_id()
    await begin(pool, lease=lease)

    await progress.fail(pool, "feed", lease, retry_at=NOW + MINUTE, error="nul \x00 " + "x" * 5_000)

    row = await the_row(pool)
    assert (row.status, row.retry_at, row.failures) == ("failed", NOW + MINUTE, 1)
    assert len(row.last_error or "") == 1_000


async def test_nobody_can_be_asked_that_is_not_there(pool: Pool) -> None:
    assert not await progress.request_run(pool, "nobody", NOW)
    assert not await progress.rewind(pool, "nobody", 1)
