"""`tocsin top`."""

import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer
from rich.console import Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from tocsin.cli.access import database_time, over_http, with_pool
from tocsin.cli.inspect.queue import lane_cells
from tocsin.cli.output import AsJson, console, moment, print_json_line, printable

if TYPE_CHECKING:
    from tocsin.cli.remote import Remote
    from tocsin.engine.health.provider_health import ProviderHealth
    from tocsin.engine.inspect.queue import Queue
    from tocsin.settings.tree import Settings
    from tocsin.store.pool import Pool

MOST_OUTCOMES = 12


class Frame(msgspec.Struct, frozen=True):
    """What is shown at one moment."""

    queue: "Queue"
    providers: list["ProviderHealth"]


def top(
    interval: Annotated[float, typer.Option(min=0.2, max=3_600, help="Seconds between two looks.")] = 2.0,
    count: Annotated[
        int | None,
        typer.Option(min=1, help="End after so many looks; goes on until interrupted if left out."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show lanes, rates, outcomes and alarms live; with --json, each look is a line."""
    if as_json:
        _run(interval, count, print_json_line)
    elif not console.is_terminal:
        _run(interval, count, lambda frame: console.print(render(frame)))
    else:
        with Live(console=console, auto_refresh=False) as live:
            _run(interval, count, lambda frame: live.update(render(frame), refresh=True))


def _run(interval: float, count: int | None, show: Callable[[Frame], None]) -> None:
    """Load and show one frame after the other; an interruption ends it."""
    try:
        if remote := over_http():
            _run_remotely(remote, interval, count, show)
        else:
            with_pool(lambda settings, pool: _run_locally(settings, pool, interval, count, show))
    except KeyboardInterrupt:
        return


def _run_remotely(
    remote: "Remote", interval: float, count: int | None, show: Callable[[Frame], None]
) -> None:
    from tocsin.api.bodies import ProviderList
    from tocsin.engine.inspect.queue import Queue

    while True:
        queue = remote.call(Queue, "GET", "admin", "queue")
        show(Frame(queue, remote.call(ProviderList, "GET", "admin", "providers").providers))
        count = None if count is None else count - 1
        if count == 0:
            return
        time.sleep(interval)


async def _run_locally(
    settings: "Settings", pool: "Pool", interval: float, count: int | None, show: Callable[[Frame], None]
) -> None:
    import asyncio

    from tocsin.compose.providers_in_use import provider_summaries
    from tocsin.engine.health.provider_health import providers_health
    from tocsin.engine.inspect.queue import read_queue

    in_use = provider_summaries(settings)
    while True:
        async with pool.acquire() as connection:
            now = await database_time(connection)
            queue = await read_queue(connection, in_use, now)
            show(Frame(queue, await providers_health(connection, in_use, now)))
        count = None if count is None else count - 1
        if count == 0:
            return
        await asyncio.sleep(interval)


def render(frame: Frame) -> RenderableType:
    """Build the picture of one moment."""
    lanes = frame.queue.lanes
    sent, attempts = (
        sum(getattr(lane, name) for lane in lanes) for name in ("sent_per_second", "attempts_per_second")
    )
    head = f"{moment(frame.queue.now)}  {sent:g} sent a second, of {attempts:g} attempts"
    parts: list[RenderableType] = [Text(head, style="bold"), _table([lane_cells(lane) for lane in lanes])]
    outcomes = [
        {"provider": provider.name, "last 5 min": each.outcome, "code": each.code, "count": f"{each.count:,}"}
        for provider in frame.providers
        for each in provider.outcomes
    ]
    if outcomes:
        parts += ["", _table(outcomes[:MOST_OUTCOMES])]
    alarms = [
        {
            "alarm": alarm.code,
            "provider": alarm.provider,
            "since": moment(alarm.raised_at),
            "detail": alarm.detail,
        }
        for provider in frame.providers
        for alarm in provider.alarms
    ]
    if alarms:
        parts += ["", _table(alarms[:MOST_OUTCOMES])]
    return Group(*parts)


def _table(lines: Iterable[Mapping[str, object]]) -> RenderableType:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for number, line in enumerate(lines):
        if number == 0:
            for heading in line:
                table.add_column(heading, overflow="fold")
        table.add_row(*(Text(printable(str(cell or "-"))) for cell in line.values()))
    return table if table.columns else Text("No provider is set up, and nothing waits.")
