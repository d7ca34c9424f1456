import asyncio
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from tests.rows import NOW, add_carrier, add_delivery, add_device, add_digest, delivery, take, take_lost
from tocsin.domain.delivery.states import State
from tocsin.domain.ids import LeaseId, new_lease_id
from tocsin.store.deliveries.settle import SentDelivery, UnsentDelivery, settle_sent, settle_unsent
from tocsin.store.pool import Pool, PoolSettings
from tocsin.store.tickets import Ticket, ask_again, confirm, drop_tickets, reopen, take_tickets

MINUTE = timedelta(minutes=1)
ASK_AT = NOW + 15 * MINUTE
UNTIL = ASK_AT + 2 * MINUTE
WORKERS = PoolSettings().size


async def send(pool: Pool, delivery_id: UUID, message_id: str, **changes: Any) -> None:
    """Claim a delivery and settle it as sent, with a ticket."""
    lease = new_lease_id()
    taken = await take(pool, lease=lease)
    assert delivery_id in {each.id for each in taken}
    given: dict[str, Any] = {"provider": "expo", "message_id": message_id, "ask_at": ASK_AT}
    async with pool.acquire() as connection:
        settled = await settle_sent(
            connection, [SentDelivery(id=delivery_id, lease=lease, **given | changes)], NOW
        )
    assert settled.count == 1


async def add_sent(pool: Pool, message_id: str, **changes: Any) -> UUID:
    made = await add_delivery(pool)
    await send(pool, made, message_id, **changes)
    return made


async def collect(
    pool: Pool, lease: LeaseId, *, now: datetime = ASK_AT, limit: int = 100, provider: str = "expo"
) -> list[Ticket]:
    async with pool.acquire() as connection:
        return await take_tickets(
            connection, provider, lease=lease, now=now, until=now + 2 * MINUTE, limit=limit
        )


async def tickets(pool: Pool) -> dict[UUID, tuple[str, LeaseId | None]]:
    rows = await pool.fetch("select delivery_id, message_id, lease from tickets")
    return {row["delivery_id"]: (row["message_id"], row["lease"]) for row in rows}


async def taken_back(pool: Pool, delivery_id: UUID, lease: LeaseId) -> set[UUID]:
    async with pool.acquire() as connection:
        return await reopen(connection, [delivery_id], lease, UNTIL)


async def send_anew(pool: Pool, delivery_id: UUID, message_id: str) -> None:
    """Let a delivery be sent a second time while its first ticket is still being asked about."""
    await pool.execute("update deliveries set state = 'retrying' where id = $1", delivery_id)
    await send(pool, delivery_id, message_id)


async def test_a_ticket_is_asked_about_when_its_time_has_come(pool: Pool) -> None:
    made = await add_sent(pool, "ticket-1")
    await add_sent(pool, "ticket-2", provider="other")
    await add_sent(pool, "no ticket", ask_at=None)

    assert await collect(pool, new_lease_id(), now=ASK_AT - timedelta(microseconds=1)) == []
    assert await collect(pool, new_lease_id()) == [
        Ticket(
            delivery_id=made,
            message_id="ticket-1",
            sent_at=NOW,
            type="new_customer",
            version=2,
            channel="push",
            attempts=1,
            device_id=None,
            digest_id=None,
        )
    ]


async def test_the_ticket_of_a_digest_has_the_type_of_the_digest_and_the_device_it_was_sent_to(
    pool: Pool,
) -> None:
    device_id = await add_device(pool)
    digest_id = await add_digest(pool, type="invoice_due", version=7)
    carrier = await add_carrier(pool, digest_id, device_id=device_id)
    await send(pool, carrier, "ticket")

    (ticket,) = await collect(pool, new_lease_id())

    assert (ticket.delivery_id, ticket.type, ticket.version) == (carrier, "invoice_due", 7)
    assert (ticket.device_id, ticket.digest_id) == (device_id, digest_id)


async def test_no_ticket_is_taken_by_two_workers(pool: Pool) -> None:
    made = {await add_sent(pool, f"ticket-{number}") for number in range(20)}

    batches = await asyncio.gather(*(collect(pool, new_lease_id(), limit=3) for _ in range(WORKERS)))

    taken = [ticket.delivery_id for batch in batches for ticket in batch]
    assert all(len(batch) <= 3 for batch in batches)
    assert len(taken) == len(set(taken))
    rest = [ticket.delivery_id for ticket in await collect(pool, new_lease_id())]
    assert sorted(taken + rest) == sorted(made)


async def test_what_a_dead_worker_took_is_taken_over_when_its_lease_ends(pool: Pool) -> None:
    made = await add_sent(pool, "ticket")
    dead, heir = new_lease_id(), new_lease_id()
    await collect(pool, dead)

    assert await collect(pool, heir, now=UNTIL - MINUTE) == []
    assert [ticket.delivery_id for ticket in await collect(pool, heir, now=UNTIL)] == [made]
    async with pool.acquire() as connection:
        await confirm(connection, [made], dead)
        await drop_tickets(connection, [made], dead)
        await ask_again(connection, [made], dead, NOW)
    assert await taken_back(pool, made, dead) == set()
    assert await tickets(pool) == {made: ("ticket", heir)}
    assert (await delivery(pool, made))["state"] == "sent"


async def test_what_has_no_receipt_yet_is_asked_about_again(pool: Pool) -> None:
    made = await add_sent(pool, "ticket")
    lease = new_lease_id()
    await collect(pool, lease)

    async with pool.acquire() as connection:
        await ask_again(connection, [made], lease, ASK_AT + 15 * MINUTE)

    assert await collect(pool, new_lease_id(), now=ASK_AT + 14 * MINUTE) == []
    assert len(await collect(pool, new_lease_id(), now=ASK_AT + 15 * MINUTE)) == 1


async def test_a_receipt_confirms_its_delivery_once(pool: Pool) -> None:
    made, other = await add_sent(pool, "ticket-1"), await add_sent(pool, "ticket-2")
    lease = new_lease_id()
    await collect(pool, lease)

    async with pool.acquire() as connection:
        await confirm(connection, [made], lease)

    assert (await delivery(pool, made))["state"] == "delivered"
    assert (await delivery(pool, other))["state"] == "sent"
    assert await tickets(pool) == {other: ("ticket-2", lease)}
    assert await taken_back(pool, made, lease) == set()


async def test_what_is_dropped_stays_sent_and_is_asked_about_no_more(pool: Pool) -> None:
    made = await add_sent(pool, "ticket")
    lease = new_lease_id()
    await collect(pool, lease)

    async with pool.acquire() as connection:
        await drop_tickets(connection, [made], lease)

    assert await tickets(pool) == {}
    assert (await delivery(pool, made))["state"] == "sent"


async def test_what_a_receipt_takes_back_is_settled_like_the_attempt_it_speaks_of(pool: Pool) -> None:
    made = await add_sent(pool, "ticket")
    lease = new_lease_id()
    await collect(pool, lease)

    assert await taken_back(pool, made, lease) == {made}

    row = await delivery(pool, made)
    assert (row["state"], row["attempts"], row["lease"], row["settled_at"]) == ("retrying", 0, lease, None)
    assert await tickets(pool) == {}
    assert await take(pool, now=ASK_AT) == []
    gone = UnsentDelivery(id=made, lease=lease, state=State.GONE, spent=1, tried_at=NOW)
    async with pool.acquire() as connection:
        assert (await settle_unsent(connection, [gone], ASK_AT)).count == 1
    row = await delivery(pool, made)
    assert (row["state"], row["attempts"]) == ("gone", 1)


async def test_what_was_taken_back_by_a_worker_that_died_is_sent_again(pool: Pool) -> None:
    made = await add_sent(pool, "ticket")
    lease = new_lease_id()
    await collect(pool, lease)
    await taken_back(pool, made, lease)

    again = await take_lost(pool, now=UNTIL)

    assert again is not None
    assert again.id == made


async def test_a_delivery_that_was_sent_anew_is_not_touched_by_an_old_receipt(pool: Pool) -> None:
    confirmed, refused = await add_sent(pool, "old-1"), await add_sent(pool, "old-2")
    lease = new_lease_id()
    await collect(pool, lease)
    await send_anew(pool, confirmed, "new-1")
    await send_anew(pool, refused, "new-2")

    async with pool.acquire() as connection:
        await confirm(connection, [confirmed], lease)
    assert await taken_back(pool, refused, lease) == set()

    for each in (confirmed, refused):
        row = await delivery(pool, each)
        assert (row["state"], row["attempts"]) == ("sent", 2)
    assert await tickets(pool) == {confirmed: ("new-1", None), refused: ("new-2", None)}


async def test_an_old_ticket_says_nothing_of_a_message_that_has_none(pool: Pool) -> None:
    made = await add_sent(pool, "old")
    await pool.execute("update deliveries set state = 'retrying' where id = $1", made)
    await send(pool, made, "new", provider="fcm", ask_at=None)
    lease = new_lease_id()
    await collect(pool, lease)

    async with pool.acquire() as connection:
        await confirm(connection, [made], lease)

    assert (await delivery(pool, made))["state"] == "sent"
    assert await tickets(pool) == {}


async def test_a_delivery_that_ended_otherwise_is_not_taken_back(pool: Pool) -> None:
    made = await add_sent(pool, "ticket")
    lease = new_lease_id()
    await collect(pool, lease)
    await pool.execute("update deliveries set state = 'delivered' where id = $1", made)

    assert await taken_back(pool, made, lease) == set()
    assert (await delivery(pool, made))["state"] == "delivered"
    assert await tickets(pool) == {}
