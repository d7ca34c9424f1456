"""What waits in a database of an earlier version is claimed by this one as if it had been accepted by it."""

from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import asyncpg
import pytest
from pogo_core.migration import Migration, topological_sort
from pogo_core.util import migrate as pogo

from tests.databases import SCHEMA, fresh_database, name_of
from tests.rows import NEVER, NOW, add_device, add_notification, delivery, insert, take
from tests.store.upgrades.earlier_version import earlier_database
from tocsin.domain.delivery.states import WAITING, State
from tocsin.domain.ids import uuid7
from tocsin.store.deliveries.claim import ClaimedDelivery
from tocsin.store.deliveries.digests import close, end
from tocsin.store.deliveries.holds import held_by, release_next
from tocsin.store.migrate import MIGRATIONS, migrate, pending_migrations
from tocsin.store.pool import PoolSettings, connect

HOUR = timedelta(hours=1)
LAST_BEFORE = "0006"
SLOT = "push:user:ada"
DIGEST_KEY = f"{SLOT}:new_customer@2"


@pytest.fixture(scope="module")
async def old_template(server_url: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[str]:
    """Make a database as the version before lanes left it."""
    folder = tmp_path_factory.mktemp("migrations")
    async with earlier_database(server_url, folder, LAST_BEFORE) as url:
        yield name_of(url)


@pytest.fixture
async def old(server_url: str, old_template: str) -> AsyncIterator[asyncpg.Connection]:
    """Open a database of the version before lanes."""
    async with fresh_database(server_url, old_template) as url:
        connection = await connect(url, SCHEMA, PoolSettings())
        try:
            yield connection
        finally:
            await connection.close()


async def upgrade(connection: asyncpg.Connection) -> None:
    # It waits for no other connection: indexes are built while the table is in use.
    await pogo.apply(connection, MIGRATIONS, schema_name=SCHEMA)


async def add_old(connection: asyncpg.Connection, **changes: Any) -> UUID:
    """Add a delivery as the earlier version stored it."""
    notification_id = changes.pop("notification_id", None) or await add_notification(connection)
    row = {
        "id": uuid7(),
        "notification_id": notification_id,
        "channel": "push",
        "user_id": "ada",
        "state": "pending",
        "due_at": NOW,
        "created_at": NOW,
    }
    return await insert(connection, "deliveries", row | changes)


async def claimed(connection: asyncpg.Connection, now: datetime | None = None) -> list[UUID]:
    """Claim everything that is due in the lane of what has no lane yet."""
    return [
        each.id for each in await take(connection, lane="fanout", now=now or await server_time(connection))
    ]


async def server_time(connection: asyncpg.Connection) -> datetime:
    """Return the time of the server, by which the migration makes deliveries due."""
    now: datetime = await connection.fetchval("select now() + interval '1 second'")
    return now


async def test_what_waits_does_so_in_the_fan_out_lane_and_what_is_settled_stays(
    old: asyncpg.Connection,
) -> None:
    made = {
        state: await add_old(
            old,
            state=state,
            reason="r",
            attempts=2,
            device_id=await add_device(old),
            ordering_key=None if state in WAITING else SLOT,
            collapse_key=None if state in WAITING else f"{SLOT}:c",
            digest_id=None if state in WAITING else uuid7(),
            held_by=None if state in WAITING else "circuit:fcm",
            settled_at=None if state in WAITING else NOW,
        )
        for state in State
    }
    before = {state: await delivery(old, each) for state, each in made.items()}

    await upgrade(old)

    added = {
        "lane": "fanout",
        "accept_order": None,
        "alone": False,
        "recovering": False,
        "unknown_type": None,
        "decision_set": None,
        "decided_at": None,
    }
    for state, each in made.items():
        del before[state]["digest_key"]
        assert await delivery(old, each) == before[state] | added
    assert set(await claimed(old, NOW)) == {made[state] for state in WAITING}


async def test_what_was_held_for_a_provider_waits_in_a_lane(old: asyncpg.Connection) -> None:
    holders = [
        "busy:fcm",
        "circuit:fcm",
        "circuit:webhook/a.example",
        "provider:fcm",
        "busy:webpush/a.example",
    ]
    made = {
        await add_old(old, state=state, held_by=holder, due_at=NEVER): state
        for holder in holders
        for state in ("scheduled", "pending", "retrying")
    }

    await upgrade(old)

    for each, state in made.items():
        row = await delivery(old, each)
        assert (row["state"], row["held_by"], row["lane"]) == (state, None, "fanout")
    assert set(await claimed(old)) == set(made)
    assert await held_by(old) == []


async def test_what_is_held_for_another_reason_stays_held(old: asyncpg.Connection) -> None:
    holders = ["channel:push", "order", "type:new_customer", "type:new_customer/push"]
    held: dict[str, Any] = {"state": "scheduled", "due_at": NEVER, "ordering_key": SLOT}
    made = {holder: await add_old(old, held_by=holder, **held) for holder in holders}

    await upgrade(old)

    for holder, each in made.items():
        row = await delivery(old, each)
        assert (row["held_by"], row["due_at"], row["lane"]) == (holder, NEVER, "fanout")
    assert await claimed(old) == []
    assert sorted(await held_by(old)) == holders


async def test_order_goes_on_as_it_was_within_each_type(old: asyncpg.Connection) -> None:
    types = ("new_customer", "invoice_due", "new_customer")
    notifications = [await add_notification(old, type=name) for name in types]
    # Stored in another order than they were accepted in.
    third = await add_old(
        old,
        notification_id=notifications[2],
        ordering_key=SLOT,
        state="scheduled",
        held_by="order",
        due_at=NEVER,
    )
    second = await add_old(
        old,
        notification_id=notifications[1],
        ordering_key=SLOT,
        state="scheduled",
        held_by="order",
        due_at=NEVER,
    )
    first = await add_old(old, notification_id=notifications[0], ordering_key=SLOT)
    await add_old(old, ordering_key=SLOT, state="sent")

    await upgrade(old)

    rows = [await delivery(old, each) for each in (first, second, third)]
    assert [row["ordering_key"] for row in rows] == [f"{SLOT}:{name}" for name in types]
    assert rows[0]["accept_order"] < rows[2]["accept_order"]
    groups = [f"{SLOT}:{name}" for name in sorted(set(types))]
    # What waited behind another type waits no more.
    assert await release_next(old, groups, NOW) == 1
    taken = {each.id: each.order_blockers for each in await take(old, lane="fanout")}
    assert taken == {first: [], second: []}
    await old.execute("update deliveries set state = 'sent' where id = $1", first)
    assert await release_next(old, groups, NOW) == 1
    assert [each.id for each in await take(old, lane="fanout")] == [third]


async def test_what_is_accepted_from_now_on_comes_after_what_waited(old: asyncpg.Connection) -> None:
    made = await add_old(old, ordering_key=SLOT)

    await upgrade(old)

    assert (await delivery(old, made))["accept_order"] < await old.fetchval("select nextval('accept_order')")


async def test_collapse_keys_count_by_type(old: asyncpg.Connection) -> None:
    older = await add_old(old, collapse_key=f"{SLOT}:c")
    other_type = await add_old(
        old, notification_id=await add_notification(old, type="invoice_due"), collapse_key=f"{SLOT}:c"
    )
    newer = await add_old(old, collapse_key=f"{SLOT}:c")

    await upgrade(old)

    found = {each.id: each.newer is not None for each in await take(old, lane="fanout")}
    assert found == {older: True, other_type: False, newer: False}
    row = await delivery(old, older)
    assert row["collapse_key"] == f"{SLOT}:c:new_customer"


async def test_the_devices_of_one_notification_do_not_replace_each_other(old: asyncpg.Connection) -> None:
    notification_id = await add_notification(old)
    devices = [await add_device(old) for _ in range(2)]
    for device_id in devices:
        await add_old(
            old,
            notification_id=notification_id,
            device_id=device_id,
            state="retrying",
            attempts=1,
            ordering_key=SLOT,
            collapse_key=f"{SLOT}:c",
        )

    await upgrade(old)

    taken = await take(old, lane="fanout")
    assert [each.device_id for each in taken] == devices
    assert [(each.newer, each.order_blockers) for each in taken] == [(None, [])] * 2


async def test_what_waited_for_a_digest_becomes_a_member_of_one(old: asyncpg.Connection) -> None:
    waiting: dict[str, Any] = {"state": "scheduled", "digest_key": DIGEST_KEY}
    leader = await add_old(old, due_at=NOW + HOUR, **waiting)
    followers = [await add_old(old, due_at=NEVER, held_by="digest", **waiting) for _ in range(2)]
    other = await add_old(old, **waiting | {"digest_key": "email:user:ada:other@1", "channel": "email"})
    settled = await add_old(old, state="sent", digest_key=DIGEST_KEY, digest_id=leader)

    await upgrade(old)

    digest = dict(await old.fetchrow("select * from digests where key = $1", DIGEST_KEY))
    assert (digest["type"], digest["version"], digest["state"]) == ("new_customer", 2, "open")
    for each in (leader, *followers):
        row = await delivery(old, each)
        assert (row["digest_id"], row["held_by"], row["due_at"]) == (digest["id"], "digest", NEVER)
        assert (row["state"], row["lease"]) == ("scheduled", None)
    assert (await delivery(old, settled))["digest_id"] == leader
    (email,) = await take(old, lane="fanout", now=NOW)
    assert (email.notification_id, email.channel) == (None, "email")
    assert email.digest_id == (await delivery(old, other))["digest_id"]
    (carrier,) = await take(old, lane="fanout", now=NOW + HOUR)
    assert (carrier.digest_id, carrier.notification_id, carrier.type) == (digest["id"], None, "new_customer")
    assert (carrier.user_id, carrier.due_at) == ("ada", NOW + HOUR)
    members = await close(old, [digest["id"]], NOW)
    assert members[digest["id"]].count == 3
    await old.execute("update deliveries set state = 'sent' where id = $1", carrier.id)
    await end(old, [digest["id"]], NOW)
    states = {(await delivery(old, each))["state"] for each in (leader, *followers)}
    assert states == {"sent"}


@pytest.mark.parametrize(
    "leader",
    [
        {"state": "retrying", "attempts": 1, "due_at": NOW + HOUR},
        {"state": "scheduled", "due_at": NEVER, "held_by": "circuit:smtp"},
        {"state": "pending", "lease": UUID(int=1), "leased_until": NOW + HOUR},
    ],
    ids=["retrying", "held for its provider", "being sent"],
)
async def test_a_digest_goes_on_whatever_its_leader_was_doing(
    old: asyncpg.Connection, leader: dict[str, Any]
) -> None:
    mail: dict[str, Any] = {"channel": "email", "digest_key": DIGEST_KEY}
    first = await add_old(old, **mail | leader)
    await old.execute("update deliveries set digest_id = id")
    second = await add_old(old, state="scheduled", digest_id=first, due_at=NEVER, held_by="digest", **mail)

    await upgrade(old)

    (carrier,) = await take(old, lane="fanout", now=await server_time(old) + HOUR)
    assert carrier.digest_id is not None
    members = await close(old, [carrier.digest_id], NOW)
    assert members[carrier.digest_id].count == 2
    assert {(await delivery(old, each))["digest_id"] for each in (first, second)} == {carrier.digest_id}


@pytest.mark.parametrize("held", [False, True], ids=["due", "set aside for another digest"])
async def test_what_was_fanned_out_is_retried_by_itself_and_is_told_of_once(
    old: asyncpg.Connection, *, held: bool
) -> None:
    """A digest that reached one of two devices must not be sent to that one again."""
    notification_id = await add_notification(old)
    phone, tablet, watch = [await add_device(old) for _ in range(3)]
    common: dict[str, Any] = {"notification_id": notification_id, "digest_key": DIGEST_KEY}
    sent = await add_old(old, state="sent", device_id=phone, **common)
    await old.execute("update deliveries set digest_id = id")
    common["digest_id"] = sent
    retried = [
        await add_old(
            old,
            state="scheduled" if held else "retrying",
            device_id=device_id,
            held_by="digest" if held else None,
            due_at=NEVER if held else NOW,
            **common,
        )
        for device_id in (tablet, watch)
    ]
    later = await add_old(old, state="scheduled", due_at=NOW, digest_key=DIGEST_KEY)

    await upgrade(old)

    taken: dict[UUID, ClaimedDelivery] = {
        each.id: each for each in await take(old, lane="fanout", now=await server_time(old))
    }
    assert {each.device_id for each in taken.values() if each.notification_id} == {tablet, watch}
    assert all(taken[each].digest_id is None for each in retried)
    (carrier,) = [each for each in taken.values() if each.notification_id is None]
    assert carrier.digest_id == (await delivery(old, later))["digest_id"]
    members = await close(old, [carrier.digest_id], NOW)
    assert members[carrier.digest_id].count == 1


async def test_every_migration_can_be_undone_and_applied_again(server_url: str) -> None:
    async with fresh_database(server_url) as url:
        applied = await migrate(url, SCHEMA, PoolSettings())
        connection = await connect(url, SCHEMA, PoolSettings())
        try:
            every = [Migration(path.stem, path, set()) for path in MIGRATIONS.glob("*.sql")]
            for migration in reversed(list(topological_sort([each.load() for each in every]))):
                async with pogo.transaction(connection, migration):
                    await migration.rollback(connection)
            await connection.execute("drop table schema_migrations")
            tables = await connection.fetchval("select count(*) from pg_tables where schemaname = $1", SCHEMA)
        finally:
            await connection.close()

        assert tables == 0
        assert await migrate(url, SCHEMA, PoolSettings()) == applied


async def test_going_back_before_lanes_keeps_what_belongs_to_a_notification(old: asyncpg.Connection) -> None:
    made = await add_old(old, state="retrying", attempts=1)
    member = await add_old(old, state="scheduled", digest_key=DIGEST_KEY)
    await upgrade(old)

    while "0007_lanes" not in await pending_migrations(old, SCHEMA):
        await pogo.rollback(old, MIGRATIONS, schema_name=SCHEMA, count=1)

    rows = {row["id"]: row["state"] for row in await old.fetch("select id, state from deliveries")}
    assert rows == {made: "retrying", member: "cancelled"}
