"""A search reads no more than its window, by the index that leads it; a count no more than its limit."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

import pytest

from tests.databases import SCHEMA, fresh_database
from tests.store.plans import Node, explain_kept, indexes, keep_plan, rows_read
from tocsin.domain.delivery.reasons import Reason
from tocsin.domain.delivery.states import State, Status
from tocsin.store.deliveries import queue
from tocsin.store.deliveries.search import (
    INDEXED_STATES,
    find_statement,
    floor_statements,
    leads,
    matching_statement,
)
from tocsin.store.notifications import OF_EXTERNAL_ID
from tocsin.store.pool import Connection, PoolSettings, open_pool
from tocsin.wire.filters import DeliveryFilter

ROWS = 20_000
WINDOW = 100
LISTED = 21
SPAN = (UUID(int=(1 << 128) - 1), UUID(int=0))
TO_MANY = UUID(int=1)
"""The oldest notification, which has many deliveries."""
IN_ORDER = "notifications_in_order"
BY_KEY = "notifications_pkey"
OF_ORG = "notifications_of_org"


class Searched(NamedTuple):
    """A filter, and the indexes by which it reads deliveries and notifications."""

    given: DeliveryFilter
    deliveries: set[str]
    notifications: set[str]


SEARCHED = {
    "everything": Searched(DeliveryFilter(), set(), {IN_ORDER}),
    "a type": Searched(DeliveryFilter(type="t1"), set(), {IN_ORDER}),
    "a producer": Searched(DeliveryFilter(producer="shop"), set(), {IN_ORDER}),
    "an organisation": Searched(DeliveryFilter(org_id="small"), set(), {OF_ORG, IN_ORDER}),
    "an organisation that has none": Searched(DeliveryFilter(org_id="org-x"), set(), {OF_ORG, IN_ORDER}),
    "a type of an organisation": Searched(
        DeliveryFilter(org_id="small", type="t1"), set(), {OF_ORG, IN_ORDER}
    ),
    "a user of an organisation": Searched(
        DeliveryFilter(org_id="large", user="user-8"), {"deliveries_of_user"}, {OF_ORG}
    ),
    "what is dead of an organisation": Searched(
        DeliveryFilter(org_id="large", state=State.DEAD), {"deliveries_unusual"}, {OF_ORG}
    ),
    "a user": Searched(DeliveryFilter(user="user-7"), {"deliveries_of_user"}, set()),
    "a code": Searched(DeliveryFilter(code="INTERNAL"), {"deliveries_by_code"}, set()),
    "a reason": Searched(DeliveryFilter(reason=Reason.OPTED_OUT), {"deliveries_by_reason"}, set()),
    "a type by state": Searched(
        DeliveryFilter(state=State.DEAD, type="t1"), {"deliveries_unusual"}, {IN_ORDER}
    ),
    "a status of two states": Searched(
        DeliveryFilter(status=Status.DEAD_LETTER), {"deliveries_unusual"}, set()
    ),
    "a status of two states by type": Searched(
        DeliveryFilter(status=Status.DEAD_LETTER, type="t1"), {"deliveries_unusual"}, {IN_ORDER}
    ),
    "a channel": Searched(DeliveryFilter(channel="push"), {"deliveries_by_notification_and_user"}, set()),
    "a type by channel": Searched(
        DeliveryFilter(channel="push", type="t1"), {"deliveries_by_notification_and_user"}, {IN_ORDER}
    ),
} | {
    f"what is {state}": Searched(DeliveryFilter(state=state), {"deliveries_unusual"}, set())
    for state in sorted(INDEXED_STATES)
}

FILL = """
insert into notifications (
    id, producer, idempotency_key, fingerprint, type, version, audience, payload, accepted_at, external_id,
    org_id
)
select
    lpad(to_hex(number), 32, '0')::uuid, 'shop', number, 'f', 't' || number % 10, 1, '{}', '{}', now(),
    number || '-0', case when number % 2 = 0 then 'large' when number % 100 = 7 then 'small' end
from generate_series(1, :rows) as number;

insert into deliveries (
    id, notification_id, channel, lane, user_id, state, reason, last_error_code, due_at, created_at
)
select
    gen_random_uuid(), id, 'push', 'fcm', 'user-' || number % 50,
    (array['sent', 'scheduled', 'retrying', 'rejected', 'gone', 'dead', 'skipped', 'cancelled', 'expired'])[
        1 + number % 9
    ],
    case when number % 9 = 6 then 'opted_out' end, case when number % 9 = 5 then 'INTERNAL' end,
    '2030-01-01Z', now()
from (select id, row_number() over (order by id) as number from notifications) as numbered;

insert into users (user_id, timezone, updated_at)
select 'user-' || number, 'Asia/Tokyo', now() from generate_series(1, :rows) as number;

insert into devices (id, user_id, provider, platform, token, token_hash, registered_at, last_seen_at)
select gen_random_uuid(), 'user-' || number, 'fcm', 'android', number, int4send(number), now(), now()
from generate_series(1, :rows) as number;

insert into deliveries (id, notification_id, channel, lane, user_id, state, due_at, created_at)
select gen_random_uuid(), lpad('1', 32, '0')::uuid, 'push', 'fcm', 'one-of-' || number, 'sent', now(), now()
from generate_series(1, 500) as number;
"""


LATER = datetime(2030, 1, 1, tzinfo=UTC)
COUNTS = {
    "depths": (queue.DEPTHS, (["fcm"], LATER, WINDOW)),
    "later": (queue.LATER, (["fcm"], LATER - timedelta(minutes=30), WINDOW)),
    "hours": (queue.IN_HOURS, (["fcm"], [LATER - timedelta(minutes=30)], LATER, WINDOW)),
    "types and zones of hours": (
        queue.DRAWN_IN_HOURS,
        (["fcm"], [LATER - timedelta(minutes=30)], LATER, WINDOW, [10]),
    ),
}
OF_ENTRY = ("7-0", None, 10, None)


@pytest.fixture(scope="module", params=["planned on empty tables", "analyzed"])
async def api(
    request: pytest.FixtureRequest, server_url: str, template_database: str
) -> AsyncIterator[Connection]:
    """Open a connection as the API has it, with a plan kept for every statement."""
    async with (
        fresh_database(server_url, template_database) as url,
        open_pool(url, SCHEMA, PoolSettings()) as pool,
        pool.acquire() as connection,
    ):
        fill = FILL.replace(":rows", str(ROWS))
        if request.param == "analyzed":
            await connection.execute(fill)
            await connection.execute("vacuum analyze")
        for name, searched in SEARCHED.items():
            for kind, (statement, arguments) in _statements(searched.given).items():
                await keep_plan(connection, f"{kind} of {name}", statement, *arguments)
        for name, (statement, arguments) in COUNTS.items():
            await keep_plan(connection, name, statement, *arguments)
        await keep_plan(connection, "of a stream entry", OF_EXTERNAL_ID, *OF_ENTRY)
        if request.param != "analyzed":
            await connection.execute(fill)
        yield connection


def _statements(given: DeliveryFilter) -> dict[str, tuple[str, tuple[Any, ...]]]:
    (lead,) = leads(given)
    own = (lead.argument,) if lead.argument else ()
    statement, arguments = find_statement(given, lead)
    matching, of_matching = matching_statement(given)
    return {
        "matching": (matching, ([TO_MANY], LISTED, *of_matching)),
        "floor": (floor_statements(lead)[-1], (*SPAN, WINDOW, *own)),
        "find": (statement, (*SPAN, WINDOW // 10, *arguments)),
    }


async def _explain(connection: Connection, name: str, kind: str) -> list[Node]:
    _, arguments = _statements(SEARCHED[name].given)[kind]
    return await explain_kept(connection, f"{kind} of {name}", *arguments)


@pytest.mark.parametrize("name", SEARCHED)
async def test_a_search_reads_one_window_by_its_index(api: Connection, name: str) -> None:
    searched = SEARCHED[name]
    floor, found = await _explain(api, name, "floor"), await _explain(api, name, "find")

    # Each state of a status is searched by itself.
    most = 3 * WINDOW * max(1, len(searched.given.states))
    for plan in (floor, found):
        assert not [node for node in plan if node["Node Type"] in {"Seq Scan", "Bitmap Heap Scan"}]
        assert not [node for node in plan if "Sort" in node["Node Type"] and node["Actual Rows"] > WINDOW]
        # What an organisation has is found by one index, and looked up by another.
        looked_at = rows_read(plan, "notifications") / (2 if searched.given.org_id else 1)
        assert rows_read(plan) + looked_at <= most
    assert indexes(found) == searched.deliveries
    assert indexes(found, "notifications") <= searched.notifications | {BY_KEY}
    assert indexes(floor) | indexes(floor, "notifications") <= (
        searched.deliveries | searched.notifications | {BY_KEY}
    )


@pytest.mark.parametrize("name", ["everything", "a channel", "a type by channel"])
async def test_no_more_deliveries_of_a_notification_are_read_than_are_listed(
    api: Connection, name: str
) -> None:
    plan = await _explain(api, name, "matching")

    assert indexes(plan) == {"deliveries_by_notification_and_user"}
    assert rows_read(plan) == LISTED
    assert not [node for node in plan if "Sort" in node["Node Type"]]


async def test_the_notification_of_a_stream_entry_is_looked_up_by_its_index(api: Connection) -> None:
    plan = await explain_kept(api, "of a stream entry", *OF_ENTRY)

    assert indexes(plan, "notifications") == {"notifications_by_external_id"}
    assert rows_read(plan, "notifications") == 1


@pytest.mark.parametrize("name", COUNTS)
async def test_a_count_reads_the_head_of_each_lane_in_the_due_index(api: Connection, name: str) -> None:
    plan = await explain_kept(api, name, *COUNTS[name][1])

    # Those that are drawn are read by their ids.
    assert indexes(plan) - {"deliveries_pkey"} == {"deliveries_due_by_lane"}
    assert WINDOW <= rows_read(plan) <= 2 * WINDOW
    for table in ("notifications", "users", "devices"):
        assert rows_read(plan, table) <= WINDOW
    assert not [node for node in plan if node["Node Type"] in {"Seq Scan", "Bitmap Heap Scan"}]
