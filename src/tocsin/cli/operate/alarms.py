"""`tocsin alarms`."""

from operator import attrgetter
from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import typer

from tocsin.cli.access import By, at_database_time, operator, over_http, with_connection
from tocsin.cli.output import AsJson, fail, moment, plural, print_result

if TYPE_CHECKING:
    from tocsin.store.health.provider_health import AlarmRecord

app = typer.Typer(name="alarms", help="Faults that an operator has to act on.", invoke_without_command=True)


@app.callback()
def list_alarms(
    context: typer.Context,
    every: Annotated[bool, typer.Option("--all", help="Show cleared alarms too.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=1_000, help="How many, at most.")] = 50,
    as_json: AsJson = False,
) -> None:
    """List the alarms that stand, newest first."""
    if context.invoked_subcommand is not None:
        return
    if remote := over_http():
        from tocsin.api.bodies import AlarmPage

        path, cleared = ("admin", "alarms"), str(every).lower()
        alarms = remote.list_pages(AlarmPage, attrgetter("alarms"), *path, cleared=cleared, limit=limit)
    else:
        from tocsin.engine.health.provider_health import NEWEST
        from tocsin.store.health.provider_health import list_alarms as listed

        alarms = with_connection(listed, cleared=every, before=NEWEST, limit=limit)
    empty = "There never was an alarm." if every else "No alarm stands."
    lines = [line for alarm in alarms for line in _lines(alarm)]
    print_result(alarms, as_json, *lines or [empty])


@app.command()
def clear(
    alarm_id: Annotated[UUID, typer.Argument(metavar="ID", help="The id that `tocsin alarms` shows.")],
    by: By = None,
    as_json: AsJson = False,
) -> None:
    """Clear an alarm; it is raised again if its cause persists."""
    from tocsin.store.health import provider_health as health

    who = operator(by)
    alarm = (
        remote.find(health.AlarmRecord, "POST", "admin", "alarms", alarm_id, "clear")
        if (remote := over_http())
        else at_database_time(lambda connection, now: health.clear_alarm(connection, alarm_id, who, now))
    )
    if alarm is None:
        fail(f"No alarm {alarm_id} stands; `tocsin alarms --all` lists those that were cleared.")
    print_result(alarm, as_json, f"Cleared {alarm.code} of {alarm.provider}.")


def _lines(alarm: "AlarmRecord") -> list[str]:
    state = f"cleared {moment(alarm.cleared_at)} by {alarm.cleared_by}" if alarm.cleared_at else "stands"
    return [
        f"{alarm.alarm_id}  {alarm.provider}  {alarm.code}, {plural(alarm.count, 'time', 'times')}",
        f"  {state}; since {moment(alarm.raised_at)}, last {moment(alarm.last_at)}",
        f"  {alarm.detail or 'no detail given'}",
    ]
