import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from tests.databases import SCHEMA
from tests.store.plans import Node, nodes
from tocsin.domain.delivery.states import State
from tocsin.domain.ids import new_delivery_id, new_notification_id
from tocsin.domain.plan import PlannedDelivery
from tocsin.store import notifications
from tocsin.store.notifications import NewNotification
from tocsin.store.pool import Connection, Pool, PoolSettings, open_pool

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
LATER = NOW + timedelta(hours=1)

STORED = """
select producer, type, version, expires_at, accepted_at
from notifications
order by idempotency_key
"""
PLANNED = """
select deliveries.channel, deliveries.lane, deliveries.state, deliveries.due_at
from deliveries
join notifications on notifications.id = deliveries.notification_id
order by idempotency_key
"""


def notification(key: str, **changes: Any) -> NewNotification:
    delivery = PlannedDelivery(
        id=new_delivery_id(),
        channel="email",
        user_id="ada",
        lane="smtp",
        state=State.SCHEDULED,
        due_at=LATER,
    )
    of_delivery = {
        name: changes.pop(name) for name in ("channel", "lane", "state", "due_at") if name in changes
    }
    made = NewNotification(
        id=new_notification_id(),
        producer="shop",
        idempotency_key=key,
        type="t",
        version=1,
        collapse_key=None,
        request_id=None,
        trace_id=None,
        occurred_at=None,
        send_at=None,
        send_at_local=None,
        expires_at=LATER,
        accepted_at=NOW,
        fingerprint=b"f",
        audience=b"{}",
        payload=b"{}",
        deliveries=[replace(delivery, **of_delivery)],
    )
    return replace(made, **changes)


@pytest.mark.parametrize(
    "changes",
    [
        [{}],
        [{}, {}],
        [{}, {"expires_at": None}],
        [{"expires_at": None}, {}],
        [{"expires_at": None}, {"expires_at": None}],
        [{"producer": "a", "accepted_at": LATER}, {"type": "u", "version": 2}],
        [{"channel": "push", "lane": "fcm"}, {"state": State.PENDING, "due_at": NOW}],
    ],
)
async def test_a_column_is_stored_whether_or_not_it_is_the_same_in_all_rows(
    pool: Pool, changes: list[dict[str, Any]]
) -> None:
    new = [notification(str(number), **change) for number, change in enumerate(changes)]

    async with pool.acquire() as connection:
        accepted = await notifications.accept(connection, new, ["fcm"], NOW)

        assert accepted == {each.id for each in new}
        assert [tuple(row) for row in await connection.fetch(STORED)] == [
            (each.producer, each.type, each.version, each.expires_at, each.accepted_at) for each in new
        ]
        assert [tuple(row) for row in await connection.fetch(PLANNED)] == [
            (planned.channel, planned.lane, planned.state, planned.due_at)
            for each in new
            for planned in each.deliveries
        ]


class Explaining:
    """Explains the statement that accepting executes, and keeps its plan."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.plan: list[Node] = []

    async def fetchval(self, statement: str, *arguments: Any) -> None:
        text = await self._connection.fetchval(f"explain (analyze, format json) {statement}", *arguments)
        self.plan = nodes(json.loads(text)[0]["Plan"])


@pytest.mark.parametrize("lookups_only", [False, True], ids=["of the API", "of a worker"])
async def test_the_rows_of_a_batch_are_not_compared_with_each_other(
    database_url: str, *, lookups_only: bool
) -> None:
    opening = open_pool(database_url, SCHEMA, PoolSettings(), lookups_only=lookups_only)
    async with opening as pool, pool.acquire() as connection:
        explaining = Explaining(connection)
        await notifications.accept(
            explaining,
            [notification(str(number)) for number in range(100)],
            [],
            NOW,
        )
        assert await connection.fetchval("select count(*) from deliveries") == 100

    assert sum(node.get("Rows Removed by Join Filter", 0) for node in explaining.plan) == 0
