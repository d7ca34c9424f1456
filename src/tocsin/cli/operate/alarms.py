"""`tocsin alarms`."""

from typing import Annotated
from uuid import UUID

import msgspec
import typer

from tocsin.cli.access import system_user, with_pool
from tocsin.cli.output import AsJson, complain, console, moment, print_json, table
from tocsin.domain.toggles import LONGEST_NOTE, Note
from tocsin.engine.clock import utc_now
from tocsin.engine.health.provider_health import NEWEST, AlarmRecord, alarm_record
from tocsin.settings import Settings
from tocsin.store.health import provider_health as health
from tocsin.store.pool import Pool

app = typer.Typer(help="Faults that an operator has to act on.", invoke_without_command=True)


@app.callback()
def list_alarms(
    context: typer.Context,
    every: Annotated[bool, typer.Option("--all", help="Show those that were cleared too.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=1_000, help="How many, at most.")] = 50,
    as_json: AsJson = False,
) -> None:
    """List the alarms that stand, newest first."""
    if context.invoked_subcommand is not None:
        return

    async def work(_: Settings, pool: Pool) -> list[AlarmRecord]:
        async with pool.acquire() as connection:
            rows = await health.list_alarms(connection, cleared=every, before=NEWEST, limit=limit)
        return [alarm_record(row) for row in rows]

    alarms = with_pool(work)
    if as_json:
        print_json(alarms)
        return
    if not alarms:
        console.print("There never was an alarm." if every else "No alarm stands.")
        return
    shown = table("alarm", "provider", "last", "state")
    for alarm in alarms:
        state = f"cleared by {alarm.cleared_by}" if alarm.cleared_at else "stands"
        shown.add_row(
            f"{alarm.alarm_id}\n  {alarm.code}, {alarm.count} times",
            alarm.provider,
            moment(alarm.last_at),
            state,
        )
    console.print(shown, markup=False)


@app.command()
def clear(
    alarm_id: Annotated[UUID, typer.Argument(metavar="ID", help="The id that `tocsin alarms` shows.")],
    by: Annotated[str | None, typer.Option(help="Who clears it; the system's user unless given.")] = None,
    as_json: AsJson = False,
) -> None:
    """Clear an alarm; if its cause is still there, it is raised anew."""
    who = _name(system_user() if by is None else by)

    async def work(_: Settings, pool: Pool) -> AlarmRecord | None:
        async with pool.acquire() as connection:
            row = await health.clear_alarm(connection, alarm_id, who, utc_now())
        return alarm_record(row) if row else None

    alarm = with_pool(work)
    if alarm is None:
        complain(f"No alarm {alarm_id} stands; `tocsin alarms --all` lists those that were cleared.")
        raise typer.Exit(1)
    if as_json:
        print_json(alarm)
    else:
        console.print(f"Cleared {alarm.code} of {alarm.provider}.", markup=False)


def _name(text: str) -> str:
    try:
        return msgspec.convert(text.strip(), Note)
    except msgspec.ValidationError:
        complain(f"--by must be 1 to {LONGEST_NOTE} characters, without line breaks.")
        raise typer.Exit(2) from None
