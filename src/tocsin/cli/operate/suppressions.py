"""`tocsin suppressions`."""

from typing import Annotated

import msgspec
import typer

from tocsin.cli.access import with_pool
from tocsin.cli.output import AsJson, complain, console, moment, print_json, table
from tocsin.domain.intent import EmailAddress
from tocsin.domain.toggles import LONGEST_NOTE, Note
from tocsin.engine.clock import utc_now
from tocsin.settings import Settings
from tocsin.store.people import suppressions
from tocsin.store.people.suppressions import Suppression
from tocsin.store.pool import Pool

app = typer.Typer(help="Addresses that are sent no mail.", no_args_is_help=True)

Address = Annotated[str, typer.Argument(metavar="ADDRESS", help="A mail address.")]


@app.command("list")
def list_suppressions(
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="How many, at most.")] = 50,
    as_json: AsJson = False,
) -> None:
    """List addresses that are sent nothing and why, newest first."""

    async def work(_: Settings, pool: Pool) -> list[Suppression]:
        return await suppressions.page(pool, limit=limit)

    rows = with_pool(work)
    if as_json:
        print_json(rows)
        return
    if not rows:
        console.print("No address is suppressed.")
        return
    shown = table("address", "since", "reason", "detail")
    for row in rows:
        shown.add_row(row.address, moment(row.suppressed_at), row.reason, row.detail or "-")
    console.print(shown, markup=False)


@app.command()
def add(
    address: Address,
    reason: Annotated[str, typer.Option(help="Why; the next person will want to know.")] = "manual",
    as_json: AsJson = False,
) -> None:
    """Send an address nothing from now on."""
    wanted, why = _address(address), _reason(reason)

    async def work(_: Settings, pool: Pool) -> Suppression:
        return await suppressions.suppress(pool, wanted, reason=why, now=utc_now())

    row = with_pool(work)
    if as_json:
        print_json(row)
        return
    console.print(f"{row.address} is sent no mail.", markup=False, soft_wrap=True)


@app.command()
def remove(address: Address, as_json: AsJson = False) -> None:
    """Send an address mail again."""
    wanted = _address(address)

    async def work(_: Settings, pool: Pool) -> bool:
        return await suppressions.remove(pool, wanted)

    if not with_pool(work):
        complain(f"{wanted} is not suppressed.")
        raise typer.Exit(1)
    if as_json:
        print_json({"address": wanted.lower()})
        return
    console.print(f"{wanted.lower()} is sent mail again.", markup=False, soft_wrap=True)


def _address(text: str) -> str:
    try:
        return msgspec.convert(text.strip(), EmailAddress)
    except msgspec.ValidationError:
        complain(f"{text!r} is not a mail address, such as ada@example.org.")
        raise typer.Exit(2) from None


def _reason(text: str) -> str:
    try:
        return msgspec.convert(text.strip(), Note)
    except msgspec.ValidationError:
        complain(f"--reason must be 1 to {LONGEST_NOTE} characters, without line breaks.")
        raise typer.Exit(2) from None
