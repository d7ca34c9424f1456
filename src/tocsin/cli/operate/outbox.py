"""`tocsin outbox`."""

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Annotated, TypeAlias, TypeVar

import typer

from tocsin.cli.options import with_options_of
from tocsin.cli.output import AsJson, complain, fail, print_json, print_lines, print_result, print_rows
from tocsin.domain.errors import DatabaseError
from tocsin.domain.faults import Fault
from tocsin.ingress.outbox.settings import SCHEMA, TABLE, OutboxSettings

if TYPE_CHECKING:
    from tocsin.ingress.outbox.check import Findings
    from tocsin.ingress.outbox.rows import Status

app = typer.Typer(
    name="outbox",
    help="The outbox in an application's own database: its transaction commits, its notification is sent.",
    no_args_is_help=True,
)

WHICH = "Give --url, or the name of an outbox that is set as [outboxes.NAME]."

Outboxes: TypeAlias = Mapping[str, OutboxSettings]
SchemaName = Annotated[str, typer.Option(help="The schema that holds the outbox.")]
TableName = Annotated[str, typer.Option("--table", help="The table that is the outbox.")]

Result = TypeVar("Result")


def chosen_outboxes(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="An outbox of the settings.")] = None,
    url: Annotated[str | None, typer.Option(help="The application's database, postgresql://…")] = None,
    schema: SchemaName = SCHEMA,
    table_name: TableName = TABLE,
) -> Outboxes:
    """Return the outbox at an address, the one of a name, or all that are set."""
    if url is not None and name is not None:
        fail("Give the name of an outbox or --url, not both.", code=2)
    if url is not None:
        return {f"{schema}.{table_name}": OutboxSettings(url=url, schema=schema, table=table_name)}
    from tocsin.settings.load import load_settings

    known = load_settings().outboxes
    if name is not None and name not in known:
        fail(f"No outbox {name} is set; those that are: {', '.join(known) or 'none'}.", code=2)
    if not known:
        fail(WHICH, code=2)
    return known if name is None else {name: known[name]}


@app.command()
@with_options_of(chosen_outboxes)
def install(outboxes: Outboxes, as_json: AsJson = False) -> None:
    """Create the table and the function tocsin_publish; running it again changes nothing."""
    import asyncpg
    import uvloop

    from tocsin.ingress.outbox.install import FUNCTION

    if len(outboxes) > 1:
        fail(WHICH, code=2)
    [(name, outbox)] = outboxes.items()
    if outbox.envelope != "intent":
        fail(f"{name} is set up for an existing table; there is nothing to install.", code=2)
    try:
        uvloop.run(_install(outbox))
    except (asyncpg.InsufficientPrivilegeError, asyncpg.InvalidSchemaNameError) as error:
        raise DatabaseError(
            f"The outbox cannot be installed: {error}. The role needs CREATE on schema {outbox.schema}; "
            "`tocsin outbox sql` prints what to run as another."
        ) from error
    function = f"{outbox.schema}.{FUNCTION}"
    print_result(
        {"table": f"{outbox.schema}.{outbox.table}", "function": function},
        as_json,
        f"The outbox {outbox.schema}.{outbox.table} is in place. Within a transaction:",
        f"  select {function}('{{…intent…}}'::jsonb)",
    )


@app.command()
def sql(
    schema: SchemaName = SCHEMA,
    table_name: TableName = TABLE,
) -> None:
    """Print the SQL that `install` runs."""
    from tocsin.ingress.outbox.install import install_sql

    typer.echo(install_sql(schema, table_name), nl=False)


@app.command()
@with_options_of(chosen_outboxes)
def check(outboxes: Outboxes, as_json: AsJson = False) -> None:
    """Check whether outboxes can be relayed: server, columns, rights, index, function."""
    found = _on_each(outboxes, _check)
    if as_json:
        print_json(found)
    else:
        for outbox, findings in found.items():
            _print(outbox, findings)
    if any(findings.faults for findings in found.values()):
        raise typer.Exit(1)


@app.command()
@with_options_of(chosen_outboxes)
def status(outboxes: Outboxes, as_json: AsJson = False) -> None:
    """Show how many rows wait in outboxes, since when, and how many were refused."""
    found = _on_each(outboxes, _status)
    if as_json:
        print_json(found)
        return
    print_rows(
        list(found.items()),
        as_json,
        empty="No outbox is set.",
        cells=_cells,
    )


def _on_each(outboxes: Outboxes, work: Callable[[OutboxSettings], Awaitable[Result]]) -> dict[str, Result]:
    import uvloop

    async def body() -> dict[str, Result]:
        return {name: await work(outbox) for name, outbox in outboxes.items()}

    return uvloop.run(body())


async def _install(outbox: OutboxSettings) -> None:
    from tocsin.ingress.outbox.install import install
    from tocsin.ingress.outbox.table import connect
    from tocsin.store.pool import PoolSettings, opened_connection

    async with opened_connection(connect(outbox.url, PoolSettings())) as connection:
        await install(connection, outbox.schema, outbox.table)


async def _status(outbox: OutboxSettings) -> "Status":
    from tocsin.ingress.outbox.refusals import ALARM_AFTER
    from tocsin.ingress.outbox.rows import status
    from tocsin.ingress.outbox.table import connect, inspect
    from tocsin.store.pool import PoolSettings, opened_connection

    async with opened_connection(connect(outbox.url, PoolSettings())) as connection:
        return await status(connection, await inspect(connection, outbox), ALARM_AFTER)


async def _check(outbox: OutboxSettings) -> "Findings":
    from tocsin.ingress.outbox.check import Findings, check
    from tocsin.ingress.outbox.table import connect
    from tocsin.store.pool import PoolSettings, opened_connection

    try:
        async with opened_connection(connect(outbox.url, PoolSettings())) as connection:
            return await check(connection, outbox)
    except DatabaseError as error:
        return Findings(faults=[Fault(field="url", code="unreachable", message=str(error))], hints=[])


def _print(outbox: str, findings: "Findings") -> None:
    if findings.faults:
        complain(f"{outbox} cannot be relayed:")
    else:
        print_lines(f"{outbox} can be relayed.")
    print_lines(*(f"  {finding}" for finding in (*findings.faults, *findings.hints)))


def _cells(counted: tuple[str, "Status"]) -> dict[str, object]:
    from tocsin.ingress.outbox.refusals import ALARM_AFTER

    outbox, status = counted
    refused = {"refused": status.failed, f"{ALARM_AFTER} times or more": status.alarming}
    return {"outbox": outbox, "waiting": status.waiting, "oldest": status.oldest, **refused}
