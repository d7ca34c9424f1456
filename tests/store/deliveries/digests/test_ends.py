import asyncio
from typing import Any

import msgspec
import pytest

from tests.rows import NOW, add_carrier, add_device, add_digest, delivery, take
from tests.store.deliveries.digests.rows import (
    add_joining,
    add_member,
    end_one,
    join_all,
    state_of,
    states,
)
from tests.store.locks import waits_for_a_lock
from tests.waiting import found
from tocsin.domain.delivery.states import WAITING, State
from tocsin.domain.ids import new_lease_id
from tocsin.store.deliveries.digests import close, end, join
from tocsin.store.deliveries.settle import SentDelivery, settle_sent
from tocsin.store.pool import Pool


@pytest.mark.parametrize(
    ("carrier", "member"),
    [
        ({"state": "sent", "provider": "fcm", "provider_message_id": "m"}, ("sent", None)),
        ({"state": "delivered", "provider": "expo", "provider_message_id": "t"}, ("sent", None)),
        ({"state": "dead", "last_error_code": "UNAVAILABLE", "last_error": "busy"}, ("dead", None)),
        ({"state": "rejected", "last_error_code": "X", "last_error": "no"}, ("rejected", None)),
        ({"state": "gone"}, ("gone", None)),
        ({"state": "skipped", "reason": "no_device"}, ("skipped", "no_device")),
    ],
    ids=repr,
)
async def test_members_end_as_their_digest_does(
    pool: Pool, carrier: dict[str, Any], member: tuple[str, str | None]
) -> None:
    digest_id = await add_digest(pool)
    carrier_id = await add_carrier(pool, digest_id, **carrier)
    made = [await add_member(pool, digest_id, 1), await add_member(pool, digest_id, 2, state="pending")]
    other = await add_member(pool, await add_digest(pool, key="other"))

    await end_one(pool, digest_id)

    assert await state_of(pool, digest_id) == "ended"
    assert await states(pool, *made) == [member, member]
    names = ("provider", "provider_message_id", "last_error_code", "last_error")
    for each in made:
        row = await delivery(pool, each)
        assert (row["settled_at"], row["held_by"], row["attempts"]) == (NOW, None, 0)
        assert {name: row[name] for name in names} == {name: carrier.get(name) for name in names}
        (step,) = msgspec.json.decode(row["decisions"])
        assert (step["rule"], step["result"]) == ("digest", "pass" if member[0] == "sent" else "skip")
        assert str(digest_id) in step["detail"]
        assert str(carrier_id) in step["detail"]
    assert await states(pool, other) == [("scheduled", None)]


@pytest.mark.parametrize("waiting", ["scheduled", "pending", "retrying"])
async def test_members_wait_while_a_carrier_does_and_none_was_sent(pool: Pool, waiting: str) -> None:
    digest_id = await add_digest(pool)
    await add_carrier(pool, digest_id, state="gone")
    carrier = await add_carrier(pool, digest_id, state=waiting)
    made = await add_member(pool, digest_id)

    await end_one(pool, digest_id)
    assert (await state_of(pool, digest_id), await states(pool, made)) == ("open", [("scheduled", None)])

    await pool.execute("update deliveries set state = 'sent' where id = $1", carrier)
    await end_one(pool, digest_id)
    assert (await state_of(pool, digest_id), await states(pool, made)) == ("ended", [("sent", None)])


async def test_members_end_as_soon_as_one_carrier_was_sent(pool: Pool) -> None:
    digest_id = await add_digest(pool)
    for state in ("dead", "retrying", "sent"):
        await add_carrier(pool, digest_id, state=state)
    made = await add_member(pool, digest_id)

    await end_one(pool, digest_id)

    assert await states(pool, made) == [("sent", None)]


async def test_if_no_carrier_was_sent_the_first_one_decides(pool: Pool) -> None:
    digest_id = await add_digest(pool)
    for state in ("dead", "gone"):
        await add_carrier(pool, digest_id, state=state)
    made = await add_member(pool, digest_id)

    await end_one(pool, digest_id)

    assert await states(pool, made) == [("dead", None)]


@pytest.mark.parametrize("state", sorted(set(State) - WAITING))
async def test_members_that_ended_before_keep_their_end(pool: Pool, state: State) -> None:
    digest_id = await add_digest(pool)
    await add_carrier(pool, digest_id, state="sent")
    made = await add_member(pool, digest_id, state=state, reason="r")
    before = await delivery(pool, made)

    await end_one(pool, digest_id)

    assert await delivery(pool, made) == before


async def test_a_digest_ends_once(pool: Pool) -> None:
    digest_id = await add_digest(pool)
    carrier = await add_carrier(pool, digest_id, state="sent")
    made = await add_member(pool, digest_id)
    await end_one(pool, digest_id)
    before = await delivery(pool, made)

    # A receipt takes the message back, and then nothing is left to try.
    await pool.execute("update deliveries set state = 'gone' where id = $1", carrier)
    await end_one(pool, digest_id)

    assert await delivery(pool, made) == before


async def test_a_member_that_joins_while_the_end_waits_for_it_is_ended_too(pool: Pool) -> None:
    first, second, third = [await add_joining(pool) for _ in range(3)]
    await join_all(pool, [first])
    await pool.execute(
        "update deliveries set state = 'skipped', reason = 'opted_out' where id = $1", first.carrier_id
    )
    async with pool.acquire() as connection, connection.transaction():
        await join(connection, [second], NOW)
        ending = asyncio.create_task(end_one(pool, first.digest_id))
        await found(lambda: waits_for_a_lock(pool))
    await ending
    await join_all(pool, [third])

    ended = [("skipped", "opted_out")] * 2
    assert await states(pool, first.delivery_id, second.delivery_id) == ended
    assert (await delivery(pool, third.delivery_id))["digest_id"] == third.digest_id
    assert await states(pool, third.delivery_id) == [("scheduled", None)]


async def test_a_digest_ends_in_the_transaction_that_settles_its_carrier(pool: Pool) -> None:
    device_id = await add_device(pool)
    digest_id = await add_digest(pool)
    carrier = await add_carrier(pool, digest_id)
    made = await add_member(pool, digest_id)
    lease = new_lease_id()
    assert len(await take(pool, lease=lease)) == 1
    sent = SentDelivery(
        id=carrier, lease=lease, provider="fcm", message_id="m", device_id=device_id, digest_id=digest_id
    )

    async with pool.acquire() as connection, connection.transaction():
        await close(connection, [digest_id], NOW)
        assert (await settle_sent(connection, [sent], NOW)).count == 1
        await end(connection, [digest_id], NOW)
        assert await states(pool, carrier, made) == [("pending", None), ("scheduled", None)]

    assert await states(pool, carrier, made) == [("sent", None), ("sent", None)]
