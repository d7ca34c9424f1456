"""What a pass of retention prunes, and what it leaves."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec
import pytest

from tests import rows
from tests.databases import SCHEMA
from tests.engine.retention.passing import DAY, FAST, THEN, prune, remaining, settled_delivery
from tests.engine.stage import Stage, an_intent
from tests.waiting import found
from tocsin.domain.ids import NotificationId, first_id_at, uuid7
from tocsin.domain.people.devices import DeviceSettings
from tocsin.domain.retention import RetentionSettings
from tocsin.engine.accept.answers import Accepted, Conflict, Duplicate
from tocsin.engine.inspect.show import show
from tocsin.engine.periodic.claim import claim_run, register
from tocsin.engine.retention import prune as prune_module
from tocsin.engine.retention.passes import PassEndedError, RetentionPass, count_prunable
from tocsin.engine.retention.prune import LEASE_FOR, NAME, SCHEDULED, PassRunsError, Pruner
from tocsin.store import notifications
from tocsin.store.pool import Pool
from tocsin.store.retention.tables import KEPT, PRUNED_OTHERWISE, RULES
from tocsin.store.sources import progress

GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "retention.md"
NOT_OURS = {"schema_migrations"}


def id_at(moment: datetime) -> UUID:
    return UUID(int=first_id_at(moment).int | uuid7().int & (1 << 62) - 1)


async def add_settled_tree(pool: Pool, at: datetime) -> None:
    """Add a notification with all that can hang on it, and a digest with its carrier."""
    delivery_id = await settled_delivery(pool, at)
    await pool.execute(
        "insert into attempts (delivery_id, outcome, code, detail, at) values ($1, 'retry', 'X', '', $2)",
        delivery_id,
        at,
    )
    await pool.execute(
        "insert into tickets (delivery_id, provider, message_id, sent_at, ask_at)"
        " values ($1, 'expo', 'm', $2, $2)",
        delivery_id,
        at,
    )
    digest_id = await rows.add_digest(pool, state="ended", opened_at=at, key=uuid7().hex)
    await rows.add_carrier(pool, digest_id, state="sent", settled_at=at, created_at=at)
    await settled_delivery(pool, at, digest_id=digest_id)


# Adds a row of a table that was over at a time; those of settled deliveries are added together.
OLD_ROWS: Mapping[str, Callable[[Pool, datetime], Awaitable[Any]]] = {
    "notifications": add_settled_tree,
    "refused_intents": lambda pool, at: pool.execute(
        "insert into refused_intents (id, producer, source, code, faults, content, refused_at)"
        " values ($1, 'shop', 'http', 'invalid_intent', '[]', '', $2)",
        uuid7(),
        at,
    ),
    "publications": lambda pool, at: pool.execute(
        "insert into publications values ('office', $1, '{}', '{}', $2)", uuid7(), at
    ),
    "limit_counters": lambda pool, at: pool.execute("insert into limit_counters values ($1, $2, 1)", "k", at),
    "registration_rates": lambda pool, at: pool.execute(
        "insert into registration_rates values ($1, $2, 1)", uuid7().hex, at
    ),
    "provider_counts": lambda pool, at: pool.execute(
        "insert into provider_counts values ('fcm', $1, 'sent', '', 1)", at
    ),
    "alarms": lambda pool, at: pool.execute(
        "insert into alarms (id, provider, code, detail, raised_at, last_at, count, cleared_at)"
        " values ($1, 'fcm', 'X', '', $2, $2, 1, $2)",
        uuid7(),
        at,
    ),
    "toggle_changes": lambda pool, at: pool.execute(
        "insert into toggle_changes (name, was_enabled, enabled, changed_by, changed_at)"
        " values ('type:x', true, false, 'ada', $1)",
        at,
    ),
    "audit": lambda pool, at: pool.execute(
        "insert into audit values ($1, $2, 'ada', 'toggle.on', 'x', '{}')", id_at(at), at
    ),
    "replays": lambda pool, at: pool.execute(
        "insert into replays (id, filter, rate, force, state, created_by, matched, matched_or_more, through)"
        " values ($1, '{}', 1, false, 'finished', 'ada', 0, false, $1)",
        id_at(at),
    ),
    "broadcasts": lambda pool, at: pool.execute(
        "insert into broadcasts (notification_id, state, chunk_size, next_at, finished_at)"
        " values ($1, 'finished', 20, $2, $2)",
        id_at(at),
        at,
    ),
    "erasures": lambda pool, at: pool.execute(
        "insert into erasures (id, user_hash, requested_at, finished_at) values ($1, 'h', $2, $2)",
        id_at(at),
        at,
    ),
    "receipts": lambda pool, at: pool.execute(
        "insert into receipts (delivery_id, received_at) values ($1, $2)", uuid7(), at
    ),
    "receipt_counts": lambda pool, at: pool.execute(
        "insert into receipt_counts values ($1, 't', 'push', 'sent', 1)", at
    ),
    "inbox_items": lambda pool, at: pool.execute(
        "insert into inbox_items (id, user_id, delivery_id, type, category, title, body, data, created_at)"
        " values ($1, 'ada', $2, 't', 'c', '', '', '{}', $3)",
        id_at(at),
        uuid7(),
        at,
    ),
    "activity_counts": lambda pool, at: pool.execute(
        "insert into activity_counts (minute, event, count) values ($1, 'accepted', 1)", at
    ),
    "latency_counts": lambda pool, at: pool.execute(
        "insert into latency_counts (minute, measure, bucket, count) values ($1, 'due', 1, 1)", at
    ),
    "dashboard_sessions": lambda pool, at: pool.execute(
        "with key as (insert into api_keys (id, producer, role, key_hash, hint, created_at)"
        " values ($1, 'shop', 'viewer', $2, 'hint', $3) returning id)"
        " insert into dashboard_sessions (id_hash, key_id, created_at, expires_at)"
        " select $2, id, $3, $3 + interval '12 hours' from key",
        uuid7(),
        uuid7().bytes * 2,
        at,
    ),
    "source_lags": lambda pool, at: pool.execute(
        "insert into source_lags (kind, name, waiting_or_more, failing, seen_at)"
        " values ('outbox', $1, false, false, $2)",
        uuid7().hex,
        at,
    ),
    "circuits": lambda pool, at: pool.execute(
        "insert into circuits (name, provider, changed_at) values ($1, 'webhook', $2)", uuid7().hex, at
    ),
}
IN_A_TREE = {"notifications": 2, "deliveries": 3, "attempts": 1, "tickets": 1, "digests": 1}
ELSEWHERE = {"processes", "endpoint_deletions", "segments", "segment_members"}
"""Pruned by the processes themselves: whenever one reports, has deleted an endpoint, or sweeps segments."""


async def test_every_table_has_a_retention_that_the_guide_states(pool: Pool) -> None:
    found_tables = await pool.fetch("select tablename from pg_tables where schemaname = $1", SCHEMA)
    tables = {row["tablename"] for row in found_tables} - NOT_OURS
    pruned = {*(rule.table for rule in RULES), *PRUNED_OTHERWISE}
    guide = GUIDE.read_text("utf-8")

    # A table that is missing here grows for ever: add a rule, or the reason to keep its rows.
    assert pruned | set(KEPT) == tables
    assert not pruned & set(KEPT)
    assert pruned == set(OLD_ROWS) | set(IN_A_TREE) | ELSEWHERE
    assert [table for table in tables if f"`{table}`" not in guide] == []


async def test_a_pass_prunes_the_old_rows_of_every_table_and_no_young_ones(pool: Pool) -> None:
    now = THEN + 400 * DAY
    for add in OLD_ROWS.values():
        await add(pool, THEN)
        await add(pool, now - timedelta(minutes=1))

    counted = await count_prunable(pool, FAST, now)
    pruned = await prune(pool, now)

    expected = Counter({table: 1 for table in OLD_ROWS if table != "circuits"}) | Counter(IN_A_TREE)
    counts = {table: count for table, count in expected.items() if table not in {"attempts", "tickets"}}
    assert pruned == counts
    assert counted == counts
    left = {table: await remaining(pool, table) for table in {*OLD_ROWS, *IN_A_TREE}}
    assert left == {table: IN_A_TREE.get(table, 1) for table in left}
    assert await prune(pool, now) == {}


async def test_nothing_that_waits_is_pruned_nor_what_belongs_to_it(pool: Pool) -> None:
    old: dict[str, Any] = {"at": THEN}
    for waiting in (
        {"state": "scheduled", "due_at": THEN + 500 * DAY},
        {"state": "retrying"},
        {"state": "scheduled", "due_at": rows.NEVER, "held_by": "type:x"},
        {"state": "scheduled", "channel": "email", "fallback_for": "push"},
        # Settled, but not long enough ago.
        {"state": "dead", "settled_at": THEN + 380 * DAY},
    ):
        sent = await settled_delivery(pool, **old)
        notification_id = (await rows.delivery(pool, sent))["notification_id"]
        await rows.add_delivery(pool, notification_id=notification_id, created_at=THEN, **waiting)
    digest_id = await rows.add_digest(pool, opened_at=THEN)
    await rows.add_carrier(pool, digest_id, created_at=THEN)
    await rows.add_held(pool, "digest", digest_id=digest_id, created_at=THEN)

    assert await prune(pool, THEN + 400 * DAY) == {}
    assert await remaining(pool, "deliveries") == 12

    await pool.execute("update deliveries set state = 'sent', settled_at = $1", THEN)
    assert await prune(pool, THEN + 400 * DAY) == {"deliveries": 12, "notifications": 6, "digests": 1}


async def test_a_standing_alarm_and_the_last_change_of_a_toggle_stay(pool: Pool) -> None:
    await OLD_ROWS["toggle_changes"](pool, THEN)
    await OLD_ROWS["alarms"](pool, THEN)
    await pool.execute("update alarms set cleared_at = null")

    assert await prune(pool, THEN + 10_000 * DAY) == {}


async def test_with_zero_days_everything_is_kept(pool: Pool) -> None:
    for table in ("notifications", "refused_intents", "alarms"):
        await OLD_ROWS[table](pool, THEN)
    forever = RetentionSettings(days=0, refused_days=0, audit_days=0, share=1.0)

    assert await prune(pool, THEN + 10_000 * DAY, forever) == {}


async def test_a_key_is_accepted_once_for_its_time_though_the_notification_went_earlier(stage: Stage) -> None:
    settings = RetentionSettings(days=1, idempotency_days=7, share=1.0)
    first = NotificationId(await stage.accept(collapse_key="c", request_id="r"))
    await stage.pool.execute("update deliveries set state = 'sent', settled_at = $1", THEN)

    assert await prune(stage.pool, THEN + 2 * DAY, settings) == {"deliveries": 1, "notifications_emptied": 1}
    assert await prune(stage.pool, THEN + 3 * DAY, settings) == {}
    row = await stage.pool.fetchrow("select * from notifications")
    assert (row["payload"], row["audience"], row["collapse_key"], row["request_id"]) == (
        "{}",
        "{}",
        None,
        None,
    )
    async with stage.pool.acquire() as connection:
        shown = await show(connection, first, THEN)
    assert shown is not None
    assert (shown.pruned_at, shown.payload, shown.deliveries) == (THEN + 2 * DAY, {}, [])
    same = an_intent(collapse_key="c", request_id="r")
    other = an_intent(payload={"customer_name": "Ayşe"})
    assert await stage.acceptor.accept("shop", [same, other]) == [Duplicate(first), Conflict(first)]

    assert await prune(stage.pool, THEN + 9 * DAY, settings) == {"notifications": 1}
    (again,) = await stage.acceptor.accept("shop", [same])
    assert isinstance(again, Accepted)


async def test_keys_that_are_kept_for_ever_outlive_their_content(stage: Stage) -> None:
    settings = RetentionSettings(idempotency_days=0, share=1.0)
    first = NotificationId(await stage.accept())
    await stage.pool.execute("update deliveries set state = 'sent', settled_at = $1", THEN)

    await prune(stage.pool, THEN + 40 * DAY, settings)
    assert await prune(stage.pool, THEN + 4_000 * DAY, settings) == {}
    assert await stage.acceptor.accept("shop", [an_intent()]) == [Duplicate(first)]


async def test_an_intent_whose_key_is_pruned_while_it_is_accepted_is_accepted(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await stage.accept()
    look_up = notifications.existing

    async def pruned_before(connection: Any, keys: Any) -> Any:
        await stage.pool.execute("delete from deliveries where notification_id = $1", first)
        await stage.pool.execute("delete from notifications where id = $1", first)
        return await look_up(connection, keys)

    monkeypatch.setattr(notifications, "existing", pruned_before)
    stranger = an_intent(idempotency_key="another")

    again, other = await stage.acceptor.accept("shop", [an_intent(), stranger])

    assert isinstance(again, Accepted)
    assert isinstance(other, Accepted)
    assert await remaining(stage.pool, "deliveries") == 2


async def test_a_pass_that_ended_early_is_continued_by_the_next(pool: Pool) -> None:
    for _ in range(3):
        await rows.add_waiting(pool, 80, state="sent")
    await pool.execute("update deliveries set settled_at = $1", THEN)
    batches = 0

    async def until_the_first() -> None:
        nonlocal batches
        # One look at each table that goes by time, one at the notifications, and one batch of them.
        batches += 1
        if batches > len(RULES) + 2:
            raise PassEndedError("enough")

    work = RetentionPass(pool, FAST, THEN + 400 * DAY, proceed=until_the_first)
    with pytest.raises(PassEndedError):
        await work.run()

    assert work.pruned == {"deliveries": 80, "notifications": 1}
    assert await prune(pool, THEN + 400 * DAY) == {"deliveries": 160, "notifications": 2}


async def test_one_process_prunes_at_a_time(pool: Pool) -> None:
    pruner = Pruner(pool, lambda: THEN + 400 * DAY, FAST, DeviceSettings())
    await settled_delivery(pool)
    async with pool.acquire() as connection:
        await register(connection, [SCHEDULED], THEN)
        await progress.request_run(connection, NAME, THEN)
        (row,) = await progress.list_progress(connection)
        elsewhere = await claim_run(
            connection, row, SCHEDULED.schedule, lease_for=LEASE_FOR, now=THEN + 400 * DAY
        )
    assert elsewhere is not None

    with pytest.raises(PassRunsError):
        await pruner.prune_now()
    async with pool.acquire() as connection:
        await progress.release(connection, NAME, elsewhere.lease)
    assert await pruner.prune_now() == {"deliveries": 1, "notifications": 1}
    (row,) = await pool.fetch("select status, lease, note from progress")
    assert tuple(row) == ("idle", None, "deliveries: 1, notifications: 1")


async def test_passes_run_by_the_schedule_that_is_set(pool: Pool) -> None:
    settings = msgspec.structs.replace(FAST, schedule="*/20 * * * *")

    await Pruner(
        pool, lambda: datetime(2030, 1, 1, 12, 21, tzinfo=UTC), settings, DeviceSettings()
    ).prune_now()

    assert await pool.fetchval("select next_run_at from progress") == datetime(2030, 1, 1, 12, 40, tzinfo=UTC)


async def test_a_pass_whose_lease_was_lost_ends(pool: Pool) -> None:
    await settled_delivery(pool)
    await OLD_ROWS["refused_intents"](pool, THEN)
    await pool.execute(
        "create rule lost as on delete to refused_intents do also update progress set lease = null"
    )

    pruned = await Pruner(pool, lambda: THEN + 400 * DAY, FAST, DeviceSettings()).prune_now()

    assert pruned == {"refused_intents": 1}
    assert await remaining(pool, "deliveries") == 1


async def test_a_worker_prunes_at_its_hours_only(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prune_module, "POLL_SECONDS", 0.01)
    night = (datetime.now(UTC) + 40 * DAY).replace(hour=0, minute=30, second=0)
    stage.clock.move_to(night)
    await settled_delivery(stage.pool)
    async with stage.pool.acquire() as connection:
        await register(connection, [SCHEDULED], night)
        await progress.request_run(connection, NAME, night)

    async def seen_since(moment: datetime) -> bool | None:
        seen: bool | None = await stage.pool.fetchval("select seen_at > $1 from progress", moment)
        return seen

    settings = msgspec.structs.replace(FAST, hours="01:00-02:00")
    pruning = asyncio.create_task(Pruner(stage.pool, stage.clock, settings, DeviceSettings()).run())
    try:
        for _ in range(3):
            await found(partial(seen_since, stage.clock()))
        assert await remaining(stage.pool, "deliveries") == 1

        stage.clock.advance(timedelta(hours=1))
        await found(lambda: stage.pool.fetchval("select not exists (select from deliveries)"))
    finally:
        pruning.cancel()
