"""`tocsin list`."""

import time
from collections.abc import Iterator
from typing import Annotated
from uuid import UUID

import msgspec
import typer
from rich.text import Text

from tocsin.cli.access import at_database_time, default_timezone, over_http
from tocsin.cli.filters import read_filter
from tocsin.cli.notifications.timeline import COLOURS
from tocsin.cli.options import with_options_of
from tocsin.cli.output import (
    AsJson,
    errors,
    moment,
    plural,
    print_entry,
    print_json,
    print_json_line,
    print_lines,
)
from tocsin.wire.filters import DeliveryFilter
from tocsin.wire.search import MOST_COUNTED, FoundDelivery, FoundNotification, SearchPage

LARGEST_PAGE = 100
MOST_FOLLOWED = 1_000
"""How many notifications are printed at most for one look of --follow."""
_REMEMBERED = 10_000
_HANG = 12
_TIMED = {"scheduled", "retrying"}
"""As wide as the state of a delivery."""

Seen = dict[UUID, tuple[str, ...]]


@with_options_of(read_filter)
def list_(
    given: DeliveryFilter,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="How many, at most.")] = 50,
    cursor: Annotated[UUID | None, typer.Option(help="Continue where another list ended.")] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what comes or changes.")] = False,
    interval: Annotated[float, typer.Option(min=0.1, max=3_600, help="Seconds between two looks.")] = 1.0,
    as_json: AsJson = False,
) -> None:
    """List notifications by what became of them, newest first.

    With --follow and --json, each is a line of JSON.
    """
    if follow:
        _follow(given, limit, interval, as_json)
        return
    page = _collect(given, cursor, limit)
    if as_json:
        print_json(page)
        return
    for item in page.items:
        print_found(item)
    if not page.items:
        print_lines("Nothing matches.")
    if page.next_cursor:
        print_lines(f"There may be more: --cursor {page.next_cursor}")


def _collect(given: DeliveryFilter, cursor: UUID | None, limit: int) -> SearchPage:
    """Search until there are `limit` notifications or no more, and show how far back it is."""
    items: list[FoundNotification] = []
    page = SearchPage(items=[], next_cursor=cursor)
    with errors.status("searching …") as status:
        for page in _pages(given, cursor, limit):
            items += page.items
            if page.searched_to:
                status.update(f"searched back to {moment(page.searched_to)}, found {len(items)}")
    return msgspec.structs.replace(page, items=items)


def _pages(given: DeliveryFilter, cursor: UUID | None, limit: int) -> Iterator[SearchPage]:
    """Yield pages with `limit` notifications in all; a page may be empty before the last one."""
    while limit > 0:
        page = _page(given, cursor, min(limit, LARGEST_PAGE))
        yield page
        cursor, limit = page.next_cursor, limit - len(page.items)
        if cursor is None:
            return


def _page(given: DeliveryFilter, cursor: UUID | None, limit: int) -> SearchPage:
    if remote := over_http():
        fields = msgspec.to_builtins(given)
        return remote.call(SearchPage, "GET", "notifications", cursor=cursor, limit=limit, **fields)
    from tocsin.engine.inspect.search import search

    default_zone = default_timezone()
    return at_database_time(
        lambda connection, now: search(
            connection, given, now, cursor=cursor, limit=limit, default_zone=default_zone
        )
    )


def _follow(given: DeliveryFilter, limit: int, interval: float, as_json: bool) -> None:
    """Print what matches now, and then what is new or has changed, oldest first."""
    start = _collect(given, None, max(limit, LARGEST_PAGE))
    # Older ones are not new, even if they come up because newer ones no longer match.
    oldest = start.items[-1].notification_id if start.items and start.next_cursor else None
    seen: Seen = {item.notification_id: _states(item) for item in start.items}
    fresh = start.items[:limit]
    while True:
        for item in reversed(fresh):
            if as_json:
                print_json_line(item)
            else:
                print_found(item)
        time.sleep(interval)
        fresh = _unseen(given, seen, oldest)
        if len(fresh) == MOST_FOLLOWED:
            errors.print(f"… more came than the {MOST_FOLLOWED} newest", style="dim", markup=False)


def _unseen(given: DeliveryFilter, seen: Seen, oldest: UUID | None) -> list[FoundNotification]:
    """Return the newest notifications that were not seen in their present state, newest first."""
    fresh: list[FoundNotification] = []
    for page in _pages(given, None, MOST_FOLLOWED):
        newer = [item for item in page.items if oldest is None or item.notification_id >= oldest]
        unseen = [item for item in newer if seen.get(item.notification_id) != _states(item)]
        fresh += unseen
        if len(unseen) < len(page.items) or not page.items:
            break
    seen.update((item.notification_id, _states(item)) for item in fresh)
    for forgotten in list(seen)[:-_REMEMBERED]:
        del seen[forgotten]
    return fresh


def _states(item: FoundNotification) -> tuple[str, ...]:
    return tuple(f"{each.delivery_id} {each.state} {each.attempt_count}" for each in item.deliveries)


def print_found(item: FoundNotification) -> None:
    """Print a notification with the deliveries that match."""
    entry = f" ({item.external_id})" if item.external_id else ""
    head = f"{item.notification_id}{entry}  {moment(item.accepted_at)}  "
    print_entry(Text.assemble(head, (item.type, "bold"), f" from {item.producer}"))
    for delivery in item.deliveries:
        colour = COLOURS.get(delivery.state, "default")
        rest = f" {delivery.channel}:{delivery.recipient} {explanation(delivery)}"
        print_entry(Text.assemble("  ", (f"{delivery.state:<9}", colour), rest), hang=_HANG)
    if item.pruned_at:
        print_lines(f"  its deliveries were pruned {moment(item.pruned_at)}")
    others = item.delivery_count - len(item.deliveries)
    if others > 0:
        is_more = item.delivery_count >= MOST_COUNTED
        more = f"{others:,}{'+' if is_more else ''} that do not match"
        count = plural(item.delivery_count, "delivery", "deliveries", or_more=is_more)
        print_lines(f"  … and {'more that match' if item.truncated else more}, of {count}")


def explanation(delivery: FoundDelivery) -> str:
    """Return why a delivery is in its state, in one line."""
    parts = (
        delivery.reason,
        delivery.code,
        f"held by {delivery.held_by}" if delivery.held_by else None,
        f"waits: {delivery.waiting_for}" if delivery.waiting_for else None,
        f"due {moment(delivery.due_at)}" if delivery.due_at and delivery.state in _TIMED else None,
        delivery.hint,
    )
    return "; ".join(filter(None, parts))
