"""Delivery and open rates by type."""

from datetime import UTC, datetime, timedelta

from tocsin.store import receipts
from tocsin.store.pool import Connection
from tocsin.store.receipts import TypeRates
from tocsin.wire.person.receipts import Rates, ReceiptRates

USUAL_DAYS = timedelta(days=30)
_DIGITS = 4


async def read_rates(
    connection: Connection,
    now: datetime,
    *,
    first: datetime | None = None,
    last: datetime | None = None,
    type_: str | None = None,
) -> ReceiptRates:
    """Read the rates of what was sent from one day to another, by default in the last thirty days."""
    last = _day(last or now)
    first = _day(first) if first else last - USUAL_DAYS
    found = await receipts.rates(connection, first, last, type_)
    return ReceiptRates(from_=first, to=last, rates=[_rates(each) for each in found])


def _rates(counted: TypeRates) -> Rates:
    return Rates(
        type=counted.type,
        channel=counted.channel,
        sent=counted.sent,
        delivered=counted.delivered,
        opened=counted.opened,
        dismissed=counted.dismissed,
        delivery_rate=_share(counted.delivered, counted.sent),
        open_rate=_share(counted.opened, counted.sent),
    )


def _share(part: int, whole: int) -> float | None:
    return round(min(part / whole, 1.0), _DIGITS) if whole else None


def _day(moment: datetime) -> datetime:
    return moment.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
