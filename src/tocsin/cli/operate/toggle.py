"""`tocsin toggle`."""

from typing import Annotated

import msgspec
import typer

from tocsin.cli.access import system_user, with_pool
from tocsin.cli.output import AsJson, complain, console, errors, moment, print_json, table
from tocsin.compose import read_catalog
from tocsin.domain.errors import CatalogError
from tocsin.domain.faults import Fault
from tocsin.domain.toggles import LONGEST_NOTE, Note, Toggle, doubt, read_toggle
from tocsin.engine.clock import utc_now
from tocsin.settings import Settings
from tocsin.store import toggles
from tocsin.store.pool import Pool
from tocsin.store.toggles import ToggleChange, ToggleRow

app = typer.Typer(help="Switch types, channels and providers off and on.", no_args_is_help=True)

Name = Annotated[
    str,
    typer.Argument(metavar="NAME", help="type:NAME, type:NAME:CHANNEL, channel:CHANNEL or provider:NAME."),
]
By = Annotated[str | None, typer.Option(help="Who switches it; the system's user unless given.")]


@app.command("list")
def list_toggles(as_json: AsJson = False) -> None:
    """List what was ever switched, what is off first; everything else is on."""

    async def work(_: Settings, pool: Pool) -> list[ToggleRow]:
        return await toggles.list_all(pool)

    rows = with_pool(work)
    if as_json:
        print_json(rows)
        return
    if not rows:
        console.print("Nothing was ever switched off: everything is on.")
        return
    shown = table("toggle", "state", "since", "by", "reason")
    for row in rows:
        shown.add_row(
            row.name, _state(row.enabled), moment(row.updated_at), row.updated_by, row.reason or "-"
        )
    console.print(shown, markup=False)


@app.command()
def off(
    name: Name,
    reason: Annotated[str, typer.Option(help="Why; the next person will want to know.")],
    by: By = None,
    as_json: AsJson = False,
) -> None:
    """Switch off: nothing new of it leaves within a second, in every process."""
    _switch(name, enabled=False, reason=reason, by=by, as_json=as_json)


@app.command()
def on(
    name: Name,
    reason: Annotated[str | None, typer.Option(help="Why.")] = None,
    by: By = None,
    as_json: AsJson = False,
) -> None:
    """Switch on again: what was held back goes on."""
    _switch(name, enabled=True, reason=reason, by=by, as_json=as_json)


@app.command()
def history(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="One toggle; all unless given.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=toggles.LONGEST_LIST, help="How many, at most.")] = 50,
    as_json: AsJson = False,
) -> None:
    """List who switched what and why, newest first."""
    wanted = None if name is None else str(_read(name))

    async def work(_: Settings, pool: Pool) -> list[ToggleChange]:
        return await toggles.history(pool, wanted, limit=limit)

    changes = with_pool(work)
    if as_json:
        print_json(changes)
        return
    if not changes:
        console.print(
            f"{wanted} was never switched." if wanted else "Nothing was ever switched.", markup=False
        )
        return
    shown = table("at", "toggle", "change", "by", "reason")
    for change in changes:
        step = f"{_state(change.was_enabled)} to {_state(change.enabled)}"
        shown.add_row(moment(change.changed_at), change.name, step, change.changed_by, change.reason or "-")
    console.print(shown, markup=False)


def _switch(name: str, *, enabled: bool, reason: str | None, by: str | None, as_json: bool) -> None:
    toggle = _read(name)
    who = _checked("--by", system_user() if by is None else by)
    why = None if reason is None else _checked("--reason", reason)

    async def work(settings: Settings, pool: Pool) -> tuple[ToggleRow, list[str]]:
        async with pool.acquire() as connection:
            row = await toggles.change(
                connection, str(toggle), enabled=enabled, reason=why, by=who, now=utc_now()
            )
        return row, _warnings(settings, toggle)

    row, warnings = with_pool(work)
    if as_json:
        print_json(msgspec.structs.asdict(row) | {"warnings": warnings})
        return
    console.print(f"{row.name} is {_state(row.enabled)}.", markup=False)
    for warning in warnings:
        errors.print(f"warning: {warning}", markup=False, soft_wrap=True)


def _read(name: str) -> Toggle:
    toggle = read_toggle(name)
    if isinstance(toggle, Fault):
        complain(toggle.message)
        raise typer.Exit(2)
    return toggle


def _warnings(settings: Settings, toggle: Toggle) -> list[str]:
    try:
        found = doubt(toggle, read_catalog(settings).types)
    except CatalogError as error:
        # Whoever has to stop something now must not have to mend the catalog first.
        found = f"The name was not checked: {error.summary}"
    return [found] if found else []


def _checked(option: str, text: str) -> str:
    try:
        return msgspec.convert(text.strip(), Note)
    except msgspec.ValidationError:
        complain(f"{option} must be 1 to {LONGEST_NOTE} characters, without line breaks.")
        raise typer.Exit(2) from None


def _state(enabled: bool) -> str:
    return "on" if enabled else "off"
