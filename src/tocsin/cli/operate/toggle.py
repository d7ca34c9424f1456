"""`tocsin toggle`."""

from operator import attrgetter
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer
from rich.progress import Progress, TextColumn, TimeElapsedColumn

from tocsin.cli.access import By, Reason, at_database_time, checked_note, operator, over_http, with_connection
from tocsin.cli.output import AsJson, errors, fail, plural, print_result, print_rows
from tocsin.domain.errors import CatalogError
from tocsin.domain.faults import Fault
from tocsin.domain.toggles import LONGEST_LIST, ProviderToggle, Toggle, doubt, read_toggle

if TYPE_CHECKING:
    from tocsin.engine.health.provider_health import Waiting
    from tocsin.engine.toggles.held import SwitchedToggle, ToggleState
    from tocsin.store.toggles import ToggleChange

app = typer.Typer(
    name="toggle", help="Switch types, channels and providers off and on.", no_args_is_help=True
)

Name = Annotated[
    str,
    typer.Argument(metavar="NAME", help="type:NAME, type:NAME:CHANNEL, channel:CHANNEL or provider:NAME."),
]
OptionalReason = Annotated[str | None, typer.Option(help="Why.")]


@app.command("list")
def list_toggles(as_json: AsJson = False) -> None:
    """List every toggle that was ever switched, those that are off first; all others are on."""
    if remote := over_http():
        from tocsin.api.bodies import ToggleList

        rows = remote.call(ToggleList, "GET", "admin", "toggles").toggles
    else:
        from tocsin.engine.toggles.held import list_states

        rows = at_database_time(list_states)
    print_rows(rows, as_json, empty="Nothing was ever switched off: everything is on.", cells=_toggle_cells)


@app.command()
def off(name: Name, reason: Reason, by: By = None, as_json: AsJson = False) -> None:
    """Switch off: within a second no process sends it any more."""
    switch(name, enabled=False, reason=reason, by=by, as_json=as_json)


@app.command()
def on(
    name: Name,
    reason: OptionalReason = None,
    discard: Annotated[
        bool, typer.Option("--discard", help="Cancel what it held, instead of sending it now.")
    ] = False,
    by: By = None,
    as_json: AsJson = False,
) -> None:
    """Switch on again: held deliveries continue."""
    switch(name, enabled=True, reason=reason, discard=discard, by=by, as_json=as_json)


@app.command()
def history(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="One toggle; all unless given.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=LONGEST_LIST, help="How many, at most.")] = 50,
    as_json: AsJson = False,
) -> None:
    """List who switched what and why, newest first."""
    wanted = None if name is None else str(_read(name))
    print_rows(
        _history(wanted, limit),
        as_json,
        empty=f"{wanted} was never switched." if wanted else "Nothing was ever switched.",
        cells=_change_cells,
    )


def _history(name: str | None, limit: int) -> list["ToggleChange"]:
    if (remote := over_http()) is None:
        from tocsin.store import toggles

        return with_connection(toggles.history, name, limit=limit)
    if name is None:
        fail("Over HTTP, give the name of one toggle: tocsin toggle history NAME.", code=2)
    from tocsin.api.bodies import ToggleHistory

    path = ("admin", "toggles", name, "history")
    return remote.list_pages(ToggleHistory, attrgetter("changes"), *path, limit=limit)


def switch(
    name: str, *, enabled: bool, reason: str | None, by: str | None, as_json: bool, discard: bool = False
) -> None:
    """Switch a toggle and print its state; a name that the catalog does not have is a warning."""
    from tocsin.api.http.conversion import copy_fields
    from tocsin.engine.toggles.held import SwitchedToggle
    from tocsin.engine.toggles.held import switch as change

    toggle, who = _read(name), operator(by)
    why = None if reason is None else checked_note("--reason", reason)
    if discard:
        _print_switched(_discard(toggle, why, who), as_json)
        return
    if remote := over_http():
        body = {"enabled": enabled, "reason": why}
        switched = remote.call(SwitchedToggle, "PUT", "admin", "toggles", str(toggle), body=body)
    else:
        row = at_database_time(
            lambda connection, now: change(connection, toggle, enabled=enabled, reason=why, by=who, now=now)
        )
        switched = copy_fields(SwitchedToggle, row, warnings=_warnings(toggle), discarded=0)
    _print_switched(switched, as_json)


def _print_switched(switched: "SwitchedToggle", as_json: bool) -> None:
    fields, warnings = msgspec.structs.asdict(switched), switched.warnings
    print_result(fields, as_json, f"{switched.name} is {_state(switched.enabled)}.{_effect(switched)}")
    for warning in () if as_json else warnings:
        errors.print(f"warning: {warning}", markup=False, soft_wrap=True)


def _discard(toggle: Toggle, why: str | None, who: str) -> "SwitchedToggle":
    """Cancel what a toggle holds, call after call until it is switched on."""
    from tocsin.api.http.conversion import copy_fields
    from tocsin.engine.toggles.held import SwitchedToggle, discard_and_switch_on

    if isinstance(toggle, ProviderToggle):
        fail("--discard is for types and channels; for a provider, see `tocsin cancel`.", code=2)
    remote, total = over_http(), 0
    columns = TextColumn("discarding: {task.completed} cancelled"), TimeElapsedColumn()
    with Progress(*columns, console=errors, disable=not errors.is_terminal, transient=True) as bar:
        task = bar.add_task("", total=None)
        while True:
            if remote:
                body = {"enabled": True, "reason": why, "discard": True}
                switched = remote.call(SwitchedToggle, "PUT", "admin", "toggles", str(toggle), body=body)
            else:
                row, count = at_database_time(
                    lambda connection, now: discard_and_switch_on(
                        connection, toggle, reason=why, by=who, now=now
                    )
                )
                switched = copy_fields(SwitchedToggle, row, warnings=_warnings(toggle), discarded=count)
            total += switched.discarded
            bar.update(task, completed=total)
            if switched.enabled:
                return msgspec.structs.replace(switched, discarded=total)


def _read(name: str) -> Toggle:
    toggle = read_toggle(name)
    if isinstance(toggle, Fault):
        fail(toggle.message, code=2)
    return toggle


def _warnings(toggle: Toggle) -> list[str]:
    from tocsin.compose.catalog import read_catalog
    from tocsin.settings.load import load_settings

    try:
        found = doubt(toggle, read_catalog(load_settings()).types)
    except CatalogError as error:
        # An operator who has to stop something now must not have to fix the catalog first.
        found = f"The name was not checked: {error.summary}"
    return [found] if found else []


def _effect(switched: "SwitchedToggle") -> str:
    """Return how many deliveries a switch holds or releases."""
    if switched.discarded:
        return f" {plural(switched.discarded, 'delivery was', 'deliveries were')} cancelled."
    if not switched.held.count:
        return ""
    counted, one = waiting_deliveries(switched.held)
    verb = "continue" if switched.enabled else "wait"
    return f" {counted} {verb}{'s' * one}."


def _toggle_cells(row: "ToggleState") -> dict[str, object]:
    changed = {"since": row.updated_at, "by": row.updated_by, "reason": row.reason}
    held = f"{row.held.count}{'+' * row.held.or_more}"
    return {"toggle": row.name, "state": _state(row.enabled), "held": held, **changed}


def _change_cells(change: "ToggleChange") -> dict[str, object]:
    step = f"{_state(change.was_enabled)} to {_state(change.enabled)}"
    why = {"by": change.changed_by, "reason": change.reason}
    return {"at": change.changed_at, "toggle": change.name, "change": step, **why}


def waiting_deliveries(waiting: "Waiting") -> tuple[str, bool]:
    """Return the number of deliveries in words, and whether it is exactly one."""
    if waiting.or_more:
        return f"{waiting.count}+ deliveries", False
    return plural(waiting.count, "delivery", "deliveries"), waiting.count == 1


def _state(enabled: bool) -> str:
    return "on" if enabled else "off"
