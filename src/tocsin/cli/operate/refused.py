"""`tocsin refused`."""

from typing import Annotated
from uuid import UUID

import msgspec
import typer

from tocsin.api.http.queries import LAST
from tocsin.api.operator.admin import Refused, RefusedPage, refused_entry
from tocsin.cli.access import over_http, with_connection
from tocsin.cli.output import AsJson, print_rows
from tocsin.domain.faults import Fault
from tocsin.store.refused import list_recent

MOST_FAULTS = 3


def refused(
    limit: Annotated[int, typer.Option(min=1, max=100, help="How many, at most.")] = 20,
    before: Annotated[
        UUID | None, typer.Option(metavar="ID", help="Only what is older than this one.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List refused intents and why, newest first; --json has their content."""
    print_rows(
        remote.call(RefusedPage, "GET", "admin", "refused", limit=limit, before=before).refused
        if (remote := over_http())
        else list(map(refused_entry, with_connection(list_recent, before or LAST, limit))),
        as_json,
        empty="No intent was refused.",
        cells=_cells,
    )


def _cells(row: Refused) -> dict[str, object]:
    faults = msgspec.json.decode(row.faults, type=list[Fault])
    shown = [f"{fault.field}: {fault.message}" for fault in faults[:MOST_FAULTS]]
    if len(faults) > MOST_FAULTS:
        shown.append(f"{len(faults) - MOST_FAULTS} more")
    return {
        "refused": row.refused_at,
        "producer": row.producer,
        "type": row.type,
        "code": row.code,
        "faults": "; ".join(shown),
    }
