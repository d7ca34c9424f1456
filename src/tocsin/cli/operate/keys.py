"""`tocsin keys`."""

from typing import Annotated
from uuid import UUID

import msgspec
import typer

from tocsin.api.auth.api_keys import NewKey, create_key
from tocsin.api.auth.roles import Role
from tocsin.api.operator.admin import ProducerName
from tocsin.cli.access import with_pool
from tocsin.cli.output import AsJson, complain, console, moment, print_json, table
from tocsin.domain.errors import FaultsError
from tocsin.domain.faults import Fault
from tocsin.engine.clock import utc_now
from tocsin.settings import Settings
from tocsin.store import keys
from tocsin.store.keys import KeyRow
from tocsin.store.pool import Pool

app = typer.Typer(help="API keys for producers and operators.", no_args_is_help=True)


@app.command()
def create(
    producer: Annotated[str, typer.Argument(help="Who will use it, e.g. billing.")],
    role: Annotated[Role, typer.Option(help="What it may do.")] = Role.PRODUCER,
    as_json: AsJson = False,
) -> None:
    """Make a key and show it, this once."""
    try:
        msgspec.convert(producer, ProducerName)
    except msgspec.ValidationError as error:
        message = (
            f"{producer[:80]!r} is no name for a producer: letters, digits, dots, dashes and underscores"
        )
        fault = Fault(field="PRODUCER", code="invalid", message=message)
        raise FaultsError("The key cannot be made:", [fault]) from error

    async def work(_: Settings, pool: Pool) -> NewKey:
        async with pool.acquire() as connection:
            return await create_key(connection, producer, role, utc_now())

    made = with_pool(work)
    if as_json:
        print_json({"id": made.row.id, "producer": producer, "role": role, "key": made.secret})
        return
    console.print(f"Key for {producer} ({role}), shown only now:")
    console.print(made.secret, soft_wrap=True)


@app.command("list")
def list_keys(as_json: AsJson = False) -> None:
    """List the keys, newest first; the secrets are stored nowhere."""

    async def work(_: Settings, pool: Pool) -> list[KeyRow]:
        async with pool.acquire() as connection:
            return await keys.list_all(connection)

    rows = with_pool(work)
    if as_json:
        print_json(rows)
        return
    if not rows:
        console.print("There are no keys yet: tocsin keys create PRODUCER")
        return
    shown = table("id", "producer", "role", "ends in", "state")
    for row in rows:
        state = f"revoked {moment(row.revoked_at)}" if row.revoked_at else "live"
        shown.add_row(str(row.id), row.producer, row.role, row.hint, state)
    console.print(shown)


@app.command()
def revoke(
    key_id: Annotated[UUID, typer.Argument(help="The id that `tocsin keys list` shows.")],
    as_json: AsJson = False,
) -> None:
    """Take a key back; it stops working within five seconds."""

    async def work(_: Settings, pool: Pool) -> KeyRow | None:
        async with pool.acquire() as connection:
            return await keys.revoke(connection, key_id, utc_now())

    row = with_pool(work)
    if row is None:
        complain(f"There is no key {key_id}.")
        raise typer.Exit(1)
    if as_json:
        print_json(row)
    else:
        console.print(f"Revoked the key of {row.producer} that ends in {row.hint}.")
