"""`tocsin receipts`."""

from datetime import datetime, timedelta
from typing import Annotated

import typer

from tocsin.cli.access import at_database_time, over_http
from tocsin.cli.output import AsJson, print_result
from tocsin.engine.inspect.receipt_rates import read_rates
from tocsin.store.pool import Connection
from tocsin.wire.person.receipts import Rates, ReceiptRates


def receipts(
    type_: Annotated[str | None, typer.Option("--type", help="One type alone.")] = None,
    days: Annotated[int, typer.Option(min=1, max=3_650, help="The days to look back.")] = 30,
    as_json: AsJson = False,
) -> None:
    """Show how many deliveries of each type arrived and were opened."""

    async def read(connection: Connection, now: datetime) -> ReceiptRates:
        return await read_rates(connection, now, first=now - timedelta(days=days), type_=type_)

    if remote := over_http():
        since = (datetime.now().astimezone() - timedelta(days=days)).isoformat()
        query = {"from": since} | ({"type": type_} if type_ else {})
        found = remote.call(ReceiptRates, "GET", "admin", "receipts", **query)
    else:
        found = at_database_time(read)
    lines = [
        f"{'type':24} {'channel':8} {'sent':>10} {'delivered':>16} {'opened':>16} {'dismissed':>10}",
        *map(_line, found.rates),
    ]
    print_result(found, as_json, *lines if found.rates else ["Nothing was sent in these days."])


def _line(each: Rates) -> str:
    delivered, opened = _share(each.delivered, each.delivery_rate), _share(each.opened, each.open_rate)
    return (
        f"{each.type:24} {each.channel:8} {each.sent:>10,} {delivered:>16} {opened:>16} {each.dismissed:>10,}"
    )


def _share(count: int, rate: float | None) -> str:
    return f"{count:,}" if rate is None else f"{count:,} ({rate:.1%})"
