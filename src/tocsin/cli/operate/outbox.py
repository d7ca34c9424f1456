"""`tocsin outbox`."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, TypeVar

import asyncpg
import typer
import uvloop

from tocsin.cli.output import AsJson, complain, console, moment, print_json, table
from tocsin.domain.errors import DatabaseError
from tocsin.domain.faults import Fault
from tocsin.ingress.outbox import install as outbox_install
from tocsin.ingress.outbox.accept import ALARM_AFTER
from tocsin.ingress.outbox.check import Findings
from tocsin.ingress.outbox.check import check as look_over
from tocsin.ingress.outbox.rows import Status
from tocsin.ingress.outbox.rows import status as count
from tocsin.ingress.outbox.settings import OutboxSettings
from tocsin.ingress.outbox.table import inspect, outbox_connection
from tocsin.settings import load_settings
from tocsin.store.pool import PoolSettings

app = typer.Typer(
    help="The outbox in an application's own database: its transaction commits, its notification is sent.",
    no_args_is_help=True,
)

Name = Annotated[str | None, typer.Argument(metavar="NAME", help="An outbox of the settings.")]
Url = Annotated[str | None, typer.Option(help="The application's database, postgresql://…")]
SchemaName = Annotated[str, typer.Option(help="The schema that holds the outbox.")]
TableName = Annotated[str, typer.Option("--table", help="The table that is the outbox.")]

Result = TypeVar("Result")


@app.command()
def install(
    name: Name = None,
    url: Url = None,
    schema: SchemaName = outbox_install.SCHEMA,
    table_name: TableName = outbox_install.TABLE,
    as_json: AsJson = False,
) -> None:
    """Put the table and the function tocsin_publish in place; done twice, it changes nothing."""
    [(_, outbox)] = _chosen(name, url, schema, table_name, only_one=True).items()
    if outbox.envelope != "intent":
        complain(f"{name} is set up for a table that is there already; there is nothing to install.")
        raise typer.Exit(2)

    async def work(connection: asyncpg.Connection, outbox: OutboxSettings) -> None:
        try:
            await outbox_install.install(connection, outbox.schema, outbox.table)
        except (asyncpg.InsufficientPrivilegeError, asyncpg.InvalidSchemaNameError) as error:
            raise DatabaseError(
                f"The outbox cannot be installed: {error}. The role needs CREATE on schema {outbox.schema}; "
                "`tocsin outbox sql` prints what to run as another."
            ) from error

    _on_each({"": outbox}, work)
    function = f"{outbox.schema}.{outbox_install.FUNCTION}"
    if as_json:
        print_json({"table": f"{outbox.schema}.{outbox.table}", "function": function})
        return
    console.print(
        f"The outbox {outbox.schema}.{outbox.table} is in place. Within a transaction:", markup=False
    )
    console.print(f"  select {function}('{{…intent…}}'::jsonb)", markup=False)


@app.command()
def sql(
    schema: SchemaName = outbox_install.SCHEMA,
    table_name: TableName = outbox_install.TABLE,
) -> None:
    """Print the SQL that `install` runs."""
    typer.echo(outbox_install.install_sql(schema, table_name), nl=False)


@app.command()
def check(
    name: Name = None,
    url: Url = None,
    schema: SchemaName = outbox_install.SCHEMA,
    table_name: TableName = outbox_install.TABLE,
    as_json: AsJson = False,
) -> None:
    """Find out whether outboxes can be relayed: server, columns, rights, index, function."""
    found = _on_each(_chosen(name, url, schema, table_name), look_over, _unreachable)
    if as_json:
        print_json(found)
    else:
        for outbox, findings in found.items():
            _tell(outbox, findings)
    if any(findings.faults for findings in found.values()):
        raise typer.Exit(1)


@app.command()
def status(
    name: Name = None,
    url: Url = None,
    schema: SchemaName = outbox_install.SCHEMA,
    table_name: TableName = outbox_install.TABLE,
    as_json: AsJson = False,
) -> None:
    """Show how much waits in outboxes, since when, and how much of it was refused."""

    async def work(connection: asyncpg.Connection, outbox: OutboxSettings) -> Status:
        return await count(connection, await inspect(connection, outbox), ALARM_AFTER)

    found = _on_each(_chosen(name, url, schema, table_name), work)
    if as_json:
        print_json(found)
        return
    shown = table("outbox", "waiting", "oldest", "refused", f"{ALARM_AFTER} times or more")
    for outbox, each in found.items():
        shown.add_row(outbox, str(each.waiting), moment(each.oldest), str(each.failed), str(each.alarming))
    console.print(shown, markup=False)


def _unreachable(error: DatabaseError) -> Findings:
    return Findings(faults=[Fault(field="url", code="unreachable", message=str(error))], hints=[])


def _tell(outbox: str, findings: Findings) -> None:
    if findings.faults:
        complain(f"{outbox} cannot be relayed:")
        for fault in findings.faults:
            console.print(f"  {fault}", markup=False, soft_wrap=True)
    else:
        console.print(f"{outbox} can be relayed.", markup=False)
    for hint in findings.hints:
        console.print(f"  {hint}", markup=False, soft_wrap=True)


def _chosen(
    name: str | None, url: str | None, schema: str, table_name: str, *, only_one: bool = False
) -> Mapping[str, OutboxSettings]:
    """Give the outbox at an address, the one of a name, or all that are set."""
    if url is not None and name is not None:
        complain("Give the name of an outbox or --url, not both.")
        raise typer.Exit(2)
    if url is not None:
        return {f"{schema}.{table_name}": OutboxSettings(url=url, schema=schema, table=table_name)}
    known = load_settings().outboxes
    if name is not None and name not in known:
        complain(f"No outbox {name} is set; those that are: {', '.join(known) or 'none'}.")
        raise typer.Exit(2)
    chosen = known if name is None else {name: known[name]}
    if not chosen or (only_one and len(chosen) > 1):
        complain("Give --url, or the name of an outbox that is set as [outboxes.NAME].")
        raise typer.Exit(2)
    return chosen


def _on_each(
    outboxes: Mapping[str, OutboxSettings],
    work: Callable[[asyncpg.Connection, OutboxSettings], Awaitable[Result]],
    otherwise: Callable[[DatabaseError], Result] | None = None,
) -> dict[str, Result]:
    """Do some work on each outbox; `otherwise` says what it comes to where none can be done."""

    async def body() -> dict[str, Result]:
        done = {}
        for name, outbox in outboxes.items():
            try:
                async with outbox_connection(outbox.url, PoolSettings()) as connection:
                    done[name] = await work(connection, outbox)
            except DatabaseError as error:
                if otherwise is None:
                    raise
                done[name] = otherwise(error)
        return done

    return uvloop.run(body())
