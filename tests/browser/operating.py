"""Examples for the pages of operating: circuit breakers, toggles, periodic producers, refused intents."""

from datetime import datetime, timedelta
from uuid import UUID

from tests.rows import add_delivery, add_held, add_notification
from tocsin.domain.ids import first_id_at, new_lease_id, uuid7
from tocsin.domain.timing.schedule import Schedule
from tocsin.store import toggles
from tocsin.store.health.circuit_breakers import Opening, open_circuit
from tocsin.store.health.provider_health import Alarm, raise_alarms
from tocsin.store.people import preferences
from tocsin.store.people.suppressions import suppress
from tocsin.store.pool import Pool
from tocsin.store.sources import lags, progress, refused, stream_offsets
from tocsin.store.sources.lags import SourceLag
from tocsin.store.sources.progress import Scheduled
from tocsin.store.sources.refused import RefusedIntent
from tocsin.store.sources.stream_offsets import Offset, StreamName

SOURCES = (
    SourceLag(
        kind="outbox",
        name="shop",
        waiting=1_240,
        waiting_or_more=False,
        oldest_age=95.0,
        measured_age=4.0,
        progressed_age=2.0,
        failing=False,
        last_error="2 rows were refused; the outbox has the reason, and they are retried",
        last_error_age=600.0,
    ),
    SourceLag(
        kind="stream",
        name="orders",
        waiting=0,
        waiting_or_more=False,
        oldest_age=None,
        measured_age=1.0,
        progressed_age=40.0,
        failing=False,
        last_error=None,
        last_error_age=None,
    ),
    SourceLag(
        kind="queue",
        name="billing",
        waiting=None,
        waiting_or_more=False,
        oldest_age=None,
        measured_age=None,
        progressed_age=5_400.0,
        failing=True,
        last_error="12 tries in a row failed: AccessDenied",
        last_error_age=3.0,
    ),
)


async def fill_operating(pool: Pool, now: datetime) -> None:
    """Store the examples, as of a moment."""
    await _add_troubles(pool, now)
    await _add_sources(pool, now)
    await add_lags(pool)
    await preferences.change(pool, "ada", {"marketing": {"push": False, "email": True}}, now)
    for number, hours in enumerate((1, 1, 2, 5, 5, 5, 9, 26, 400)):
        kind = "invoice_due" if number % 3 else "new_customer"
        accepted = {"id": _id_at(now, number), "accepted_at": now}
        made = await add_notification(pool, type=kind, producer="billing", **accepted)
        due_at = now + timedelta(hours=hours)
        await add_delivery(pool, notification_id=made, state="scheduled", due_at=due_at, lane="apns")
    for number in range(3):
        address, detail = f"person-{number}@example.org", "550 5.1.1: no such mailbox"
        at = now - timedelta(hours=number)
        await suppress(pool, address, reason="hard_bounce", now=at, detail=detail)


async def _add_troubles(pool: Pool, now: datetime) -> None:
    opening = Opening(
        name="apns",
        provider="apns",
        code="ServiceUnavailable",
        detail="503: the server is unavailable and unable to process the request",
        after=timedelta(),
        rest=timedelta(minutes=5),
        longest=timedelta(hours=1),
    )
    async with pool.acquire() as connection:
        await open_circuit(connection, opening, now - timedelta(minutes=2))
        await toggles.change(
            connection,
            "type:invoice_due",
            enabled=False,
            reason="the amount is wrong in Turkish",
            by="night-shift (key 0190)",
            now=now - timedelta(minutes=25),
        )
    await add_held(pool, "type:invoice_due")


async def add_lags(pool: Pool) -> None:
    """Store how far behind the sources are; after half a minute they count as not read."""
    async with pool.acquire() as connection:
        await lags.save(connection, SOURCES)


async def _add_sources(pool: Pool, now: datetime) -> None:
    for name, late in (("new_customers", timedelta(minutes=-4)), ("overdue_invoices", timedelta(minutes=9))):
        schedule = Schedule("*/15 * * * *", "Europe/Istanbul")
        scheduled = Scheduled(name=name, kind="scan", schedule=schedule, value_type="bigint", initial=4_711)
        await progress.register(pool, scheduled, next_run_at=now - late, now=now)
    stream, lease = StreamName("orders", "intents:orders"), new_lease_id()
    await stream_offsets.hold(pool, stream, lease, 600)
    to = Offset("1789550000000-0", 120_345)
    await stream_offsets.move(pool, stream, lease, 600, before="0-0", to=to)
    detail = "row 4711 has no audience"
    async with pool.acquire() as connection:
        await raise_alarms(connection, {Alarm("outbox:shop", "row_refused", detail): 2}, now)
    entry = RefusedIntent(
        id=uuid7(),
        producer="shop",
        source="outbox",
        code="invalid_intent",
        type="new_customer",
        idempotency_key="order-17",
        faults='[{"field": "payload.customer_name", "code": "missing", "message": "is required"}]',
        content='{"type": "new_customer", "payload": {}}',
        refused_at=now,
    )
    await refused.record(pool, [entry])


def _id_at(at: datetime, number: int) -> UUID:
    return UUID(int=first_id_at(at).int | (number + 1_000))
