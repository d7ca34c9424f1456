"""What an erasure takes from every table, and what it leaves to others."""

import asyncio
from collections import Counter
from collections.abc import Mapping
from datetime import timedelta
from uuid import UUID

import pytest

from tests import rows
from tests.databases import SCHEMA
from tests.engine.stage import Stage, StubProvider
from tests.rows import NOW
from tests.waiting import found, until
from tocsin.catalog.catalog import Catalog
from tocsin.domain.delivery.outcome import Outcome, Retry, Sent
from tocsin.domain.ids import uuid7
from tocsin.domain.people.devices import DeviceSettings
from tocsin.engine.retention import erase as erase_module
from tocsin.engine.retention.erase import Eraser, names_person
from tocsin.store.people import suppressions
from tocsin.store.people.devices import DeviceRegistration, Registered, register
from tocsin.store.pool import Pool

MARK = "ada-4711"
EMAIL = f"{MARK}@example.org"
BY_SYSTEM = {"integer", "bigint", "smallint", "boolean", "timestamp with time zone"}
BY_SYSTEM |= {"timestamp without time zone", "uuid"}

# Every column that can hold text: those that can name a person and are erased, and the others. A column that
# is in neither fails the test: state whether it can name a person, and have the erasure cover it if so.
ERASED: Mapping[str, str] = {
    "attempts": "detail",
    "audit": "details",
    "deliveries": "user_id address provider_message_id last_error ordering_key collapse_key held_by"
    " decisions",
    "devices": "user_id token token_hash push_token_hash locale timezone app_version device_model"
    " retired_reason secret",
    "digests": "key",
    "erasures": "user_id email",
    "inbox_items": "user_id type category title body link icon data org_id",
    "limit_counters": "key",
    "notifications": "audience payload collapse_key request_id trace_id reference",
    "preferences": "user_id choices",
    "refused_intents": "idempotency_key faults content",
    "registration_rates": "user_id",
    "replays": "filter",
    "segment_members": "user_id",
    "suppressed_addresses": "address detail",
    "tickets": "message_id",
    "users": "user_id email locale timezone allowed_window attributes org_id",
}
IMPERSONAL: Mapping[str, str] = {
    "alarms": "provider code detail cleared_by",
    "activity_counts": "event",
    "api_keys": "producer role key_hash hint org_id",
    # Of those who operate Tocsin, for as long as a session lasts.
    "dashboard_sessions": "id_hash issuer subject name role role_claim role_values org_id",
    "attempts": "outcome code",
    "audit": "actor action subject",
    # The position is somebody's id until the next chunk; an erasure of that person is unfinished until then.
    "broadcasts": "state position waiting_for",
    "circuits": "name provider state code detail slots_at slot_sizes",
    "decision_sets": "steps",
    "deliveries": "channel state reason provider last_error_code fallback_for lane unknown_type",
    "devices": "provider platform token_kind sender_key",
    "digests": "type state",
    # The name that SNS made up for an endpoint, without whose it was, until SNS has deleted it.
    "endpoint_deletions": "endpoint_hash endpoint push_token_hash",
    "erasures": "user_hash org_id",
    "kept_secrets": "name value",
    "latency_counts": "measure",
    # The key and the fingerprint keep the promise that an intent is accepted once; they go with retention.
    # The external id is the position in a stream, by its server.
    "notifications": "producer idempotency_key fingerprint type external_id locale org_id",
    "receipt_counts": "type channel event",
    "processes": "kind host catalog catalog_fault",
    "progress": "name kind schedule timezone catch_up value_type last_value status last_error note",
    "provider_counts": "provider outcome code",
    "publications": "outbox published waiting",  # digests of ids
    "refused_intents": "producer source code type org_id message_id",
    "replays": "idempotency_key state created_by left_out stopped_by",
    "schema_migrations": "id",
    "segments": "name org_id state",
    "source_lags": "kind name last_error",
    "stream_offsets": "name stream entry_id",
    "suppressed_addresses": "reason",
    "tickets": "provider",
    "toggle_changes": "name changed_by reason",
    "toggles": "name updated_by",
}


@pytest.fixture
def eraser(pool: Pool, catalog: Catalog) -> Eraser:
    return Eraser(pool, catalog, lambda: NOW)


async def add_person(pool: Pool) -> UUID:
    """Put a person into every column that can name one; return a delivery that waits."""
    device_id = await rows.add_device(
        pool, MARK, token=f"token-{MARK}", secret=MARK, locale=MARK, timezone=MARK, app_version=MARK,
        device_model=MARK, retired_at=NOW, retired_reason=MARK,
    )  # fmt: skip
    known = {"email": EMAIL, "locale": MARK, "timezone": MARK, "allowed_window": MARK, "org_id": MARK}
    known["attributes"] = f'{{"plan": "{MARK}"}}'
    await rows.add_user(pool, MARK, **known)
    await pool.execute(
        "insert into preferences values ($1, jsonb_build_object($1::text, true), $2)", MARK, NOW
    )
    await pool.execute("insert into registration_rates values ($1, $2, 1)", MARK, NOW)
    for key in (f"person:{MARK}", f"type:new_customer:{MARK}", f"device:{device_id}"):
        await pool.execute("insert into limit_counters values ($1, $2, 1)", key, NOW)
    notification_id = await rows.add_notification(
        pool,
        audience=f'{{"users": ["{MARK}"]}}',
        payload=f'{{"name": "{MARK}"}}',
        collapse_key=MARK,
        request_id=MARK,
        reference=MARK,
        trace_id=MARK,
    )
    digest_id = await rows.add_digest(pool, key=f"push:user:{MARK}:t")
    waiting = await rows.add_delivery(
        pool,
        MARK,
        notification_id=notification_id,
        digest_id=digest_id,
        device_id=device_id,
        provider_message_id=MARK,
        last_error=MARK,
        ordering_key=MARK,
        collapse_key=MARK,
        held_by=f"host:{MARK}",
        decisions=f'[{{"rule": "device", "detail": "{MARK}"}}]',
    )
    await pool.execute(
        "insert into attempts (delivery_id, outcome, code, detail, at) values ($1, 'retry', 'X', $2, $3)",
        waiting,
        MARK,
        NOW,
    )
    await pool.execute("insert into tickets values ($1, 'expo', $2, $3, $3)", waiting, MARK, NOW)
    await pool.execute(
        "insert into inbox_items (id, user_id, delivery_id, type, category, title, body, link, icon, data,"
        " org_id, created_at) values ($1, $2, $1, $2, $2, $2, $2, $2, $2, to_jsonb($2::text), $2, $3)",
        uuid7(),
        MARK,
        NOW,
    )
    await rows.add_delivery(pool, None, channel="email", address=EMAIL, state="sent", settled_at=NOW)
    async with pool.acquire() as connection:
        await suppressions.suppress(connection, EMAIL, reason="gone", detail=MARK, now=NOW)
    filter_ = f'{{"user": "{MARK}"}}'
    await pool.execute(
        "insert into replays (id, filter, rate, force, created_by, matched, matched_or_more, through)"
        " values ($1, $2, 1, false, 'op', 0, false, $1)",
        uuid7(),
        filter_,
    )
    await pool.execute(
        "insert into audit values ($1, $2, 'op', 'dead_letters.replay', 'x', $3)",
        uuid7(),
        NOW,
        f'{{"filter": {filter_}}}',
    )
    segment_id = uuid7()
    await pool.execute("insert into segments values ($1, 'vip', null, 'current', 1, $2)", segment_id, NOW)
    await pool.execute("insert into segment_members values ($1, $2)", segment_id, MARK)
    content = f'{{"audience": {{"users": ["{MARK}"]}}}}'
    await pool.execute(
        "insert into refused_intents"
        " (id, producer, source, code, idempotency_key, faults, content, refused_at)"
        " values ($1, 'shop', 'http', 'c', $2, jsonb_build_array($2::text), $3, $4)",
        uuid7(),
        MARK,
        content,
        NOW,
    )
    return waiting


async def columns_with(pool: Pool, mark: str) -> set[str]:
    """List the columns in which a text occurs anywhere in the database."""
    found_in = set()
    for table, columns in (*IMPERSONAL.items(), *ERASED.items()):
        for column in columns.split():
            query = f"select count(*) from {table} where strpos({column}::text, $1) > 0"  # noqa: S608 - as above
            if await pool.fetchval(query, mark):
                found_in.add(f"{table}.{column}")
    return found_in


async def test_every_column_that_can_hold_text_is_known_to_name_a_person_or_not(pool: Pool) -> None:
    there = await pool.fetch(
        "select table_name, column_name from information_schema.columns"
        " where table_schema = $1 and data_type <> all($2::text[])",
        SCHEMA,
        sorted(BY_SYSTEM),
    )
    known = Counter(
        (table, column)
        for group in (ERASED, IMPERSONAL)
        for table, columns in group.items()
        for column in columns.split()
    )

    assert set(known) == {tuple(row) for row in there}
    assert max(known.values()) == 1


async def test_nothing_that_names_the_person_is_left_in_any_column(pool: Pool, eraser: Eraser) -> None:
    waiting = await add_person(pool)
    # A hash has no mark in it, and an erasure that is under way is one of the columns.
    unmarked = {"devices.token_hash", "devices.push_token_hash", "erasures.user_id", "erasures.email"}
    every = {f"{table}.{column}" for table, columns in ERASED.items() for column in columns.split()}
    assert await columns_with(pool, MARK) >= every - unmarked

    erased = await eraser.erase(MARK, "op")

    assert await columns_with(pool, MARK) == set()
    assert await pool.fetchval("select count(*) from devices") == 0
    assert (erased.state, erased.devices, erased.deliveries, erased.cancelled) == ("finished", 1, 2, 1)
    assert (erased.payloads, erased.refused_intents) == (2, 1)
    row = await rows.delivery(pool, waiting)
    assert (row["state"], row["reason"], row["user_id"], row["address"]) == (
        "cancelled", "erased", None, "erased",
    )  # fmt: skip
    # The counts by type, channel and state are as before, but for what was cancelled.
    assert await pool.fetchval("select count(*) from deliveries") == 2
    assert await pool.fetchval("select count(*) from notifications") == 2
    assert await pool.fetchval("select state from replays") == "stopped"
    assert await pool.fetchval("select members from segments") == 0
    (record,) = await pool.fetch(
        "select action, subject, actor, details from audit where action like 'user.%'"
    )
    assert tuple(record) == ("user.erase", f"user:sha256:{erased.user_hash}", "op", "{}")


async def test_what_others_got_too_stays_theirs(pool: Pool, eraser: Eraser) -> None:
    shared = await rows.add_notification(pool, audience=f'{{"users": ["{MARK}", "bob", 7]}}', request_id="r")
    await rows.add_delivery(pool, MARK, notification_id=shared, state="sent", settled_at=NOW)
    theirs = await rows.add_delivery(pool, "bob", notification_id=shared, ordering_key="push:user:bob:t")
    before = await rows.delivery(pool, theirs)
    await rows.add_user(pool, "bob", email="bob@example.org")
    phone = await rows.add_device(pool, "bob")

    erased = await eraser.erase(MARK, "op")

    assert (erased.deliveries, erased.cancelled, erased.payloads) == (1, 0, 0)
    row = await pool.fetchrow("select audience, payload, request_id from notifications")
    assert tuple(row) == ('{"users": ["bob", 7]}', '{"customer_name": "Ali Veli"}', "r")
    assert await rows.delivery(pool, theirs) == before
    assert await rows.device(pool, phone)
    assert await pool.fetchval("select email from users") == "bob@example.org"


async def test_the_last_recipient_who_is_erased_takes_the_payload_along(pool: Pool, eraser: Eraser) -> None:
    shared = await rows.add_notification(pool, audience=f'{{"users": ["{MARK}", "bob"]}}')
    for user_id in (MARK, "bob"):
        await rows.add_delivery(pool, user_id, notification_id=shared, state="sent", settled_at=NOW)

    assert (await eraser.erase(MARK, "op")).payloads == 0
    assert (await eraser.erase("bob", "op")).payloads == 1
    assert tuple(await pool.fetchrow("select audience, payload from notifications")) == ("{}", "{}")


async def test_a_suppressed_address_stays_suppressed(pool: Pool, eraser: Eraser) -> None:
    await rows.add_user(pool, MARK, email=EMAIL.upper())
    async with pool.acquire() as connection:
        await suppressions.suppress(connection, EMAIL, reason="asked by phone", now=NOW)

        await eraser.erase(MARK, "op")

        (kept,) = await suppressions.page(connection, limit=10)
        assert kept.address.startswith("sha256:")
        assert await suppressions.of(connection, [EMAIL, "bob@example.org"]) == {EMAIL}
        await rows.add_delivery(pool, None, channel="email", lane="smtp", address=EMAIL)
        (claimed,) = await rows.take(connection, lane="smtp")
        assert claimed.profile.suppressed
        assert await suppressions.remove(connection, EMAIL)
        assert await suppressions.of(connection, [EMAIL]) == set()


@pytest.mark.parametrize(
    ("outcome", "state", "reason"),
    [(Sent("m"), "sent", None), (Retry("UNAVAILABLE", after=timedelta(hours=1)), "cancelled", "erased")],
    ids=["sent", "to be tried again"],
)
async def test_what_is_being_sent_is_erased_once_it_was_settled(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, outcome: Outcome, state: str, reason: str | None
) -> None:
    monkeypatch.setattr(erase_module, "EVERY_SECONDS", 0.05)
    await stage.device(MARK)
    provider = StubProvider()
    provider.hold()
    provider.script(MARK, outcome)
    async with stage.working(provider):
        notification_id = await stage.accept(MARK)
        await until(lambda: provider.at_work)

        erased = await Eraser(stage.pool, stage.catalog, stage.clock).erase(MARK, "op")

        assert (erased.state, erased.deliveries) == ("unfinished", 0)
        assert await stage.pool.fetchval("select user_id from erasures") == MARK
        provider.let_go.set()
        await found(lambda: stage.pool.fetchval("select true from erasures where finished_at is not null"))
    (row,) = await stage.deliveries(notification_id)
    assert (row["state"], row["reason"], row["user_id"], row["address"]) == (state, reason, None, "erased")
    assert await columns_with(stage.pool, MARK) == set()
    assert len(provider.arrived) == 1


async def test_registrations_at_the_same_moment_come_before_or_after_as_a_whole(
    pool: Pool, eraser: Eraser
) -> None:
    async def registering(number: int) -> None:
        wanted = DeviceRegistration(user_id=MARK, token=f"t{number}", platform="ios", provider="fcm")
        assert isinstance(await register(pool, wanted, DeviceSettings(), NOW), Registered)

    await asyncio.gather(*map(registering, range(6)), eraser.erase(MARK, "op"), *map(registering, range(6)))
    await eraser.erase(MARK, "op")

    assert await columns_with(pool, MARK) == set()


DEEP = '{"audience": {"users": ["ada"]}, "payload": ' + "[" * 5_000 + "]" * 5_000 + "}"


@pytest.mark.parametrize(
    "content",
    [
        '{"audience": {"users": ["ada"]}}',
        '{"audience": {"users": "ada"}}',
        '{"audience": {"emails": ["ADA@example.org"]}}',
        '{"audience": {"users": ["ada"',
        '["ada"]',
        DEEP,
        '{"audience": {"users": ["ada", ' + "[" * 900 + "]" * 900 + "]}}",
    ],
)
def test_a_refused_intent_for_a_person_names_them(content: str) -> None:
    assert names_person(content, "ada", "ada@example.org")


def test_a_refused_intent_for_others_does_not_name_a_person() -> None:
    assert not names_person('{"audience": {"users": ["bob"]}, "payload": {"by": "ada"}}', "ada", None)
    assert not names_person('{"audience": {"users": [77]}}', "7", None)
    assert names_person('{"audience": {"users": [7]}}', "7", None)


async def test_many_deliveries_are_erased_in_batches(
    pool: Pool, eraser: Eraser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tocsin.store.people.erasure.BATCH", 10)
    await rows.add_waiting(pool, 25, MARK)

    erased = await eraser.erase(MARK, "op")

    assert (erased.state, erased.deliveries, erased.cancelled) == ("finished", 25, 25)
