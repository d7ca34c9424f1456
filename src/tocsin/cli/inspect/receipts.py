"""`tocsin receipts`."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from tocsin.cli.access import at_database_time, over_http
from tocsin.cli.output import AsJson, console, print_lines, print_result, printable
from tocsin.wire.person.receipts import Rates, ReceiptRates

if TYPE_CHECKING:
    from tocsin.store.pool import Connection


def receipts(
    type_: Annotated[str | None, typer.Option("--type", help="One type alone.")] = None,
    days: Annotated[int, typer.Option(min=1, max=3_650, help="The days to look back.")] = 30,
    as_json: AsJson = False,
) -> None:
    """Show how many deliveries of each type arrived and were opened."""

    async def read(connection: "Connection", now: datetime) -> ReceiptRates:
        from tocsin.engine.inspect.receipt_rates import read_rates

        return await read_rates(connection, now, first=now - timedelta(days=days), type_=type_)

    if remote := over_http():
        since = (datetime.now().astimezone() - timedelta(days=days)).isoformat()
        query = {"from": since} | ({"type": type_} if type_ else {})
        found = remote.call(ReceiptRates, "GET", "admin", "receipts", **query)
    else:
        found = at_database_time(read)
    if as_json or not found.rates:
        print_result(found, as_json, "Nothing was sent in these days.")
    elif console.is_terminal:
        console.print(_table(found.rates))
    else:
        print_lines(
            f"{'type':24} {'channel':8} {'sent':>10} {'delivered':>16} {'opened':>16} {'dismissed':>10}",
            *(
                f"{type_:24} {channel:8} {sent:>10} {delivered:>16} {opened:>16} {dismissed:>10}"
                for type_, channel, sent, delivered, opened, dismissed in map(_cells, found.rates)
            ),
        )


def _table(rates: Iterable[Rates]) -> Table:
    """Build the table of a terminal; a long type goes on in the next line."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("type", overflow="fold")
    table.add_column("channel", no_wrap=True)
    for heading in ("sent", "delivered", "opened", "dismissed"):
        table.add_column(heading, no_wrap=True, justify="right")
    for each in rates:
        table.add_row(*(Text(printable(cell)) for cell in _cells(each)))
    return table


def _cells(each: Rates) -> tuple[str, str, str, str, str, str]:
    delivered, opened = _share(each.delivered, each.delivery_rate), _share(each.opened, each.open_rate)
    return each.type, each.channel, f"{each.sent:,}", delivered, opened, f"{each.dismissed:,}"


def _share(count: int, rate: float | None) -> str:
    return f"{count:,}" if rate is None else f"{count:,} ({rate:.1%})"
