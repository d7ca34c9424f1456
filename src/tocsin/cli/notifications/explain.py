"""`tocsin explain`."""

from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from tocsin.cli.access import database_time, over_http, with_pool
from tocsin.cli.notifications.intents import Producer, check_producer, read_intent
from tocsin.cli.notifications.timeline import print_steps
from tocsin.cli.options import parse_moment, with_options_of
from tocsin.cli.output import AsJson, console, moment, print_json
from tocsin.domain.errors import FaultsError
from tocsin.domain.faults import Fault
from tocsin.domain.intent import Intent
from tocsin.wire.notifications import ExplainedRoute, Explanation

if TYPE_CHECKING:
    from tocsin.settings.tree import Settings
    from tocsin.store.pool import Pool

COLOURS = {"sent": "green", "held": "yellow", "skipped": "yellow", "expired": "yellow"}


@with_options_of(read_intent)
def explain(
    intent: Intent,
    producer: Producer = "cli",
    at: Annotated[
        str | None, typer.Option(help="Explain as of this time, e.g. 2030-01-31T03:00:00Z.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Explain what would happen to a notification, and why; nothing is sent."""
    explained = explanation(intent, producer, parse_moment("--at", at) if at else None)
    if isinstance(explained, list):
        raise FaultsError("The intent would be refused:", explained)
    if as_json:
        print_json(explained)
        return
    console.print(f"[bold]{escape(explained.type)}[/] v{explained.version}, as of {moment(explained.now)}")
    if explained.audience_size is not None:
        console.print(f"a broadcast to {explained.audience_size:,} people; of the first ones:")
    for route in explained.routes:
        _print(route)


def explanation(intent: Intent, producer: str, at: datetime | None) -> Explanation | list[Fault]:
    """Return what would happen to an intent at a time, or now, or what is wrong with it."""
    if remote := over_http():
        check_producer(producer)
        as_of = at.isoformat() if at else None
        return remote.call(Explanation, "POST", "notifications", "explain", body=intent, at=as_of)

    from tocsin.compose.catalog import read_catalog
    from tocsin.compose.parts import explainer, known_toggles

    async def work(settings: "Settings", pool: "Pool") -> Explanation | list[Fault]:
        async with known_toggles(settings, pool) as toggles, pool.acquire() as connection:
            asked = explainer(settings, read_catalog(settings), toggles)
            return await asked.explain(connection, producer, intent, at or await database_time(connection))

    return with_pool(work)


def _print(route: ExplainedRoute) -> None:
    colour = COLOURS.get(route.outcome, "default")
    when = f" at {moment(route.at)}" if route.at else ""
    why = f" ({route.reason or route.held_by})" if route.reason or route.held_by else ""
    console.print(f"\n[{colour}]{route.outcome}[/]{when}{why}  {escape(route.route_id)}", soft_wrap=True)
    print_steps(route.steps, passed=True)
