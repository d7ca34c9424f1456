"""`tocsin keys`."""

from typing import Annotated
from uuid import UUID

import typer

from tocsin.api.auth.api_keys import create_key
from tocsin.api.auth.roles import Role
from tocsin.api.operator.admin import ProducerName
from tocsin.cli.access import checked, with_connection
from tocsin.cli.output import AsJson, fail, moment, print_result, print_rows
from tocsin.engine.clock import utc_now
from tocsin.store import keys
from tocsin.store.keys import KeyRow

app = typer.Typer(name="keys", help="API keys for producers and operators.", no_args_is_help=True)


@app.command()
def create(
    producer: Annotated[str, typer.Argument(help="Who will use it, e.g. billing.")],
    role: Annotated[Role, typer.Option(help="What it may do.")] = Role.PRODUCER,
    as_json: AsJson = False,
) -> None:
    """Create a key and show it, this once."""
    allowed = "letters, digits, dots, dashes and underscores"
    producer = checked(producer, ProducerName, f"{producer[:80]!r} is no name for a producer: {allowed}.")
    made = with_connection(create_key, producer, role, utc_now())
    print_result(
        {"id": made.row.id, "producer": producer, "role": role, "key": made.secret},
        as_json,
        f"Key for {producer} ({role}), shown only now:",
        made.secret,
    )


@app.command("list")
def list_keys(as_json: AsJson = False) -> None:
    """List the keys, newest first; the secrets are not stored."""
    print_rows(
        with_connection(keys.list_all),
        as_json,
        empty="There are no keys yet: tocsin keys create PRODUCER",
        cells=_cells,
    )


@app.command()
def revoke(
    key_id: Annotated[UUID, typer.Argument(help="The id that `tocsin keys list` shows.")],
    as_json: AsJson = False,
) -> None:
    """Revoke a key; it stops working within five seconds."""
    row = with_connection(keys.revoke, key_id, utc_now())
    if row is None:
        fail(f"There is no key {key_id}.")
    print_result(row, as_json, f"Revoked the key of {row.producer} that ends in {row.hint}.")


def _cells(row: KeyRow) -> dict[str, object]:
    state = f"revoked {moment(row.revoked_at)}" if row.revoked_at else "live"
    return {"id": row.id, "producer": row.producer, "role": row.role, "ends in": row.hint, "state": state}
