"""`tocsin suppressions`."""

from operator import attrgetter
from typing import TYPE_CHECKING, Annotated

import typer

from tocsin.cli.access import (
    Reason,
    at_database_time,
    checked,
    checked_note,
    operator,
    over_http,
    with_connection,
)
from tocsin.cli.output import AsJson, fail, print_result, print_rows
from tocsin.domain.intent import EmailAddress

if TYPE_CHECKING:
    from tocsin.store.people.suppressions import Suppression

app = typer.Typer(name="suppressions", help="Addresses that are sent no mail.", no_args_is_help=True)

Address = Annotated[str, typer.Argument(metavar="ADDRESS", help="A mail address.")]


@app.command("list")
def list_suppressions(
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="How many, at most.")] = 50,
    as_json: AsJson = False,
) -> None:
    """List suppressed addresses and why, newest first."""
    if remote := over_http():
        from tocsin.api.bodies import SuppressionPage

        listed = attrgetter("suppressions")
        rows = remote.list_pages(SuppressionPage, listed, "admin", "suppressions", limit=limit)
    else:
        from tocsin.store.people import suppressions

        rows = with_connection(suppressions.page, limit=limit)
    print_rows(rows, as_json, empty="No address is suppressed.", cells=_cells)


@app.command()
def add(address: Address, reason: Reason = "manual", as_json: AsJson = False) -> None:
    """Suppress an address: send it no mail from now on."""
    from tocsin.store.people import suppressions

    wanted, why = _address(address), checked_note("--reason", reason)
    row = (
        remote.call(suppressions.Suppression, "PUT", "admin", "suppressions", wanted, body={"reason": why})
        if (remote := over_http())
        else at_database_time(
            lambda connection, now: suppressions.suppress_as(
                connection, wanted, reason=why, now=now, actor=operator(None)
            )
        )
    )
    print_result(row, as_json, f"{row.address} is sent no mail.")


@app.command()
def remove(address: Address, as_json: AsJson = False) -> None:
    """Send an address mail again."""
    wanted = _address(address)
    if remote := over_http():
        from tocsin.api.bodies import RemovedSuppression

        removed = bool(remote.find(RemovedSuppression, "DELETE", "admin", "suppressions", wanted))
    else:
        from tocsin.store.people import suppressions

        removed = with_connection(suppressions.remove_as, wanted, actor=operator(None))
    if not removed:
        fail(f"{wanted} is not suppressed.")
    print_result({"address": wanted.lower()}, as_json, f"{wanted.lower()} is sent mail again.")


def _cells(row: "Suppression") -> dict[str, object]:
    return {"address": row.address, "since": row.suppressed_at, "reason": row.reason, "detail": row.detail}


def _address(text: str) -> str:
    return checked(text, EmailAddress, f"{text!r} is not a mail address, such as ada@example.org.")
