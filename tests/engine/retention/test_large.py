"""Passes of retention over notifications with more deliveries than one statement can delete."""

from datetime import timedelta

import asyncpg
import msgspec
import pytest

from tests import rows
from tests.engine.retention.passing import DAY, FAST, THEN, prune, remaining, settled_delivery
from tocsin.domain.ids import first_id_at
from tocsin.domain.people.devices import DeviceSettings
from tocsin.engine.retention.passes import BatchSize, count_prunable
from tocsin.engine.retention.prune import Pruner
from tocsin.store.pool import Pool

LATER = THEN + 400 * DAY
# A statement that deletes more than so many rows ends as one that runs into its timeout.
TIMEOUT_ABOVE = """
create function time_out() returns trigger language plpgsql as $$
begin
    if (select count(*) from gone) > {most} then
        raise exception 'canceling statement due to statement timeout' using errcode = 'query_canceled';
    end if;
    return null;
end $$;
create trigger time_out after delete on deliveries referencing old table as gone
for each statement execute function time_out();
"""


async def add_large(pool: Pool, deliveries: int = 250) -> None:
    """Add a settled notification with many deliveries, to users and to bare addresses."""
    await rows.add_waiting(pool, deliveries - 50, state="sent")
    await pool.execute(
        """
        insert into deliveries (id, notification_id, channel, lane, address, state, due_at, created_at)
        select gen_random_uuid(), notifications.id, 'email', 'smtp', 'a@example.org', 'sent', $1, $1
        from notifications, generate_series(1, 50)
        where notifications.id = (select id from notifications order by id desc limit 1)
        """,
        THEN,
    )
    await pool.execute("update deliveries set settled_at = $1", THEN)


async def test_a_notification_with_more_deliveries_than_a_batch_goes_in_several(pool: Pool) -> None:
    await add_large(pool)
    await settled_delivery(pool)
    await pool.execute(TIMEOUT_ABOVE.format(most=100))

    assert await count_prunable(pool, FAST, LATER) == {"deliveries": 251, "notifications": 2}
    assert await prune(pool, LATER) == {"deliveries": 251, "notifications": 2}


async def test_a_notification_whose_batches_are_all_full_is_emptied_once(pool: Pool) -> None:
    await add_large(pool, 200)
    settings = msgspec.structs.replace(FAST, idempotency_days=0)

    assert await prune(pool, LATER, settings) == {"deliveries": 200, "notifications_emptied": 1}


async def test_none_of_many_deliveries_goes_while_one_of_them_waits(pool: Pool) -> None:
    await add_large(pool)
    await settled_delivery(pool)
    await pool.execute(
        "update deliveries set state = 'retrying' where id ="
        " (select id from deliveries order by notification_id, user_id desc limit 1)"
    )

    assert await count_prunable(pool, FAST, LATER) == {"deliveries": 1, "notifications": 1}
    assert await prune(pool, LATER) == {"deliveries": 1, "notifications": 1}
    assert await remaining(pool, "deliveries") == 250


@pytest.mark.parametrize("most", [30, 1])
async def test_a_batch_that_times_out_is_repeated_with_fewer_rows(pool: Pool, most: int) -> None:
    await add_large(pool, 60)
    for _ in range(20):
        await settled_delivery(pool)
    await pool.execute(TIMEOUT_ABOVE.format(most=most))

    assert await prune(pool, LATER) == {"deliveries": 80, "notifications": 21}


def test_the_size_of_a_batch_follows_the_time_it_took() -> None:
    size, sizes = BatchSize(5_000), []
    for seconds in (0.1, 0.1, 0.1, 1.0, 3.0, 3.0, 0.1):
        size.adapt(seconds)
        sizes.append(size.value)

    assert sizes == [2_000, 4_000, 5_000, 5_000, 2_500, 1_250, 2_500]
    assert [(size.shrink(used), size.value) for used in (5_000, 500, 50, 5, 1)] == [
        (True, 500), (True, 50), (True, 5), (True, 1), (False, 1)
    ]  # fmt: skip
    size.shrink(500)
    for _ in range(9):
        size.adapt(0.0)
    assert size.value == 250
    assert BatchSize(100).value == 100


async def test_a_pass_that_fails_is_shown_retried_after_a_pause_and_alarms(pool: Pool) -> None:
    now = LATER
    pruner = Pruner(pool, lambda: now, FAST, DeviceSettings())
    await settled_delivery(pool)
    await pool.execute(TIMEOUT_ABOVE.format(most=0))

    for failures in range(1, 6):
        with pytest.raises(asyncpg.QueryCanceledError):
            await pruner.prune_now()
        row = await pool.fetchrow(
            "select status, failures, last_error, retry_at > $1 and retry_at <= $2 as soon from progress",
            now,
            now + timedelta(minutes=15),
        )
        assert (row["status"], row["failures"], row["soon"]) == ("failed", failures, True)
        assert "statement timeout" in row["last_error"]
    assert await pool.fetchval("select provider from alarms where cleared_at is null") == "periodic:retention"

    await pool.execute("drop trigger time_out on deliveries")
    assert await pruner.prune_now() == {"deliveries": 1, "notifications": 1}
    assert await pool.fetchval("select count(*) from alarms where cleared_at is null") == 0
    assert await pool.fetchval("select status from progress") == "idle"


async def test_a_notification_that_never_had_a_delivery_goes_too(pool: Pool) -> None:
    made = await rows.add_notification(pool, accepted_at=THEN)
    pruner = Pruner(pool, lambda: LATER, FAST, DeviceSettings())

    assert await count_prunable(pool, FAST, LATER) == {"notifications": 1}
    assert await pruner.prune_now() == {"notifications": 1}

    # Those before the cutoff of that pass were looked at: the next one begins there.
    cutoff = LATER - 30 * DAY
    await rows.add_notification(pool, id=made, accepted_at=THEN)
    await rows.add_notification(pool, id=first_id_at(cutoff + timedelta(hours=1)), accepted_at=cutoff)
    later = Pruner(pool, lambda: LATER + DAY, FAST, DeviceSettings())
    assert await later.prune_now() == {"notifications": 1}
    assert [row["id"] for row in await pool.fetch("select id from notifications")] == [made]
