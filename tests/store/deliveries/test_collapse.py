from datetime import timedelta
from typing import Any
from uuid import UUID

import msgspec
import pytest

from tests.rows import NEVER, NOW, add_delivery, delivery, take
from tocsin.domain.delivery.states import WAITING, State
from tocsin.domain.ids import new_lease_id
from tocsin.store.deliveries.failover import collapse_older
from tocsin.store.deliveries.settle import SentDelivery, settle_sent
from tocsin.store.pool import Pool

SECOND = timedelta(seconds=1)


async def add_older(pool: Pool, **changes: Any) -> UUID:
    row: dict[str, Any] = {"collapse_key": "slot", "accept_order": 1}
    return await add_delivery(pool, **row | changes)


async def collapse(pool: Pool, **changes: Any) -> UUID:
    """Collapse what is older than one that was sent."""
    row: dict[str, Any] = {"collapse_key": "slot", "accept_order": 2, "state": "sent"}
    sent = await add_delivery(pool, **row | changes)
    async with pool.acquire() as connection:
        await collapse_older(connection, [sent], NOW)
    return sent


@pytest.mark.parametrize("state", sorted(State))
async def test_what_waits_is_replaced_by_a_newer_one_that_was_sent(pool: Pool, state: State) -> None:
    made = await add_older(pool, state=state, reason="r")
    before = await delivery(pool, made)

    await collapse(pool)

    row = await delivery(pool, made)
    if state not in WAITING:
        assert row == before
        return
    assert (row["state"], row["reason"], row["settled_at"]) == ("skipped", "collapsed", NOW)
    (step,) = msgspec.json.decode(row["decisions"])
    assert (step["rule"], step["result"]) == ("collapse_key", "skip")


@pytest.mark.parametrize(
    "older",
    [
        {"due_at": NOW + SECOND},
        {"due_at": NEVER, "held_by": "type:new_customer"},
        {"due_at": NEVER, "held_by": "order"},
        {"due_at": NEVER, "held_by": "digest"},
        {"lane": "apns"},
        {"lease": UUID(int=1), "leased_until": NOW},
    ],
    ids=repr,
)
async def test_it_is_replaced_whatever_it_waits_for(pool: Pool, older: dict[str, Any]) -> None:
    made = await add_older(pool, **older)

    await collapse(pool)

    row = await delivery(pool, made)
    assert (row["state"], row["held_by"]) == ("skipped", None)


@pytest.mark.parametrize(
    "other",
    [
        {"collapse_key": "another slot"},
        {"collapse_key": None},
        {"accept_order": 3},
        {"accept_order": 2},
        {"user_id": "bob"},
        {"address": "ada@example.com"},
        {"lease": UUID(int=1), "leased_until": NOW + SECOND},
    ],
    ids=["another key", "no key", "newer", "its sibling", "another person", "another address", "being sent"],
)
async def test_nothing_else_is_replaced(pool: Pool, other: dict[str, Any]) -> None:
    made = await add_older(pool, **other)
    before = await delivery(pool, made)

    await collapse(pool)

    assert await delivery(pool, made) == before


async def test_one_without_a_key_replaces_nothing(pool: Pool) -> None:
    made = await add_older(pool)

    await collapse(pool, collapse_key=None)

    assert (await delivery(pool, made))["state"] == "pending"


async def test_a_settlement_names_what_was_sent_with_a_collapse_key(pool: Pool) -> None:
    lease = new_lease_id()
    made = await add_older(pool, accept_order=2)
    plain = await add_delivery(pool)
    older = await add_older(pool, due_at=NOW + SECOND)
    await take(pool, lease=lease)
    sent = [SentDelivery(id=each, lease=lease, provider="fcm", message_id="m") for each in (made, plain)]

    async with pool.acquire() as connection:
        settled = await settle_sent(connection, sent, NOW)
        assert (settled.count, settled.collapsing) == (2, [made])
        await collapse_older(connection, settled.collapsing, NOW)

    assert (await delivery(pool, older))["reason"] == "collapsed"
