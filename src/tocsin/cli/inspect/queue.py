"""`tocsin queue` and `tocsin scheduled`."""

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from tocsin.cli.access import database_time, over_http, with_pool
from tocsin.cli.output import AsJson, print_json, print_lines, print_rows
from tocsin.domain.timing.moments import LONGEST_AHEAD

if TYPE_CHECKING:
    from tocsin.engine.health.provider_health import Waiting
    from tocsin.engine.inspect.queue import LaneQueue, Queue, Schedule
    from tocsin.settings.tree import Settings
    from tocsin.store.pool import Pool


def queue(as_json: AsJson = False) -> None:
    """Show what waits in each lane: how many, since when, and how fast it is sent."""
    shown = load_queue()
    if as_json:
        print_json(shown)
        return
    print_rows(
        shown.lanes, as_json=False, empty="No provider is set up, and nothing waits.", cells=lane_cells
    )


def scheduled(
    hours: Annotated[
        int, typer.Option(min=1, max=LONGEST_AHEAD, help="How many hours to look ahead, this one included.")
    ] = 24,
    as_json: AsJson = False,
) -> None:
    """Show what leaves when, by hour, type and time zone; hours are in UTC."""
    shown = _load_schedule(hours)
    if as_json:
        print_json(shown)
        return
    if not shown.hours:
        print_lines(f"Nothing is due in the next {hours} hours.")
    for hour in shown.hours:
        print_lines(f"{hour.begins:%Y-%m-%d %H:%M}Z  {amount(hour.count):>9}")
        about = "~" if hour.estimated else ""
        print_lines(
            *(f"{f'{about}{each.count:,}':>26}  {each.type or '(type unknown)'}" for each in hour.types),
            *(
                f"{f'{about}{each.count:,}':>26}  {each.local_time:%a %H:%M} in {each.zone}"
                for each in hour.zones
            ),
        )
    if shown.later.count:
        print_lines(f"{amount(shown.later)} due later; look further ahead by --hours.")


def _load_schedule(hours: int) -> "Schedule":
    from tocsin.engine.inspect.queue import Schedule, read_schedule

    if remote := over_http():
        return remote.call(Schedule, "GET", "admin", "scheduled", hours=hours)

    async def work(settings: "Settings", pool: "Pool") -> Schedule:
        async with pool.acquire() as connection:
            now, default_zone = await database_time(connection), settings.quiet_hours.default_timezone
            return await read_schedule(connection, hours, now, default_zone)

    return with_pool(work)


def load_queue() -> "Queue":
    """Load what waits in each lane."""
    from tocsin.engine.inspect.queue import Queue, read_queue

    if remote := over_http():
        return remote.call(Queue, "GET", "admin", "queue")

    from tocsin.compose.providers_in_use import provider_summaries

    async def work(settings: "Settings", pool: "Pool") -> Queue:
        async with pool.acquire() as connection:
            return await read_queue(connection, provider_summaries(settings), await database_time(connection))

    return with_pool(work)


def lane_cells(lane: "LaneQueue") -> dict[str, object]:
    """Return the cells of a lane by heading."""
    return {
        "lane": lane.lane,
        "due": amount(lane.due),
        "oldest": age(lane.oldest_age_seconds),
        "sent/s": f"{lane.sent_per_second:g}",
        "later": amount(lane.scheduled),
        "held": amount(lane.held),
        "blocked by": lane.blocked_by,
    }


def amount(waiting: "Waiting") -> str:
    """Format a count that may have ended early."""
    return f"{waiting.count:,}{'+' if waiting.or_more else ''}"


def age(seconds: float | None) -> str:
    """Format a length of time to the second."""
    return "-" if seconds is None else str(timedelta(seconds=max(0, int(seconds))))
