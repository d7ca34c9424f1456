"""`tocsin cancel`."""

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import msgspec
import typer
from rich.progress import Progress, TextColumn, TimeElapsedColumn

from tocsin.cli.access import By, at_database_time, operator, over_http
from tocsin.cli.filters import KeyPrefix, OfOrganisation, OfProducer, OfType, Since, Until, read_filter
from tocsin.cli.output import AsJson, errors, fail, plural, print_result
from tocsin.wire.cancelling import CancelFilter, CancelledByQuery, CancelRequest
from tocsin.wire.notifications import Cancelled

if TYPE_CHECKING:
    from tocsin.store.pool import Connection


def cancel(
    notification_id: Annotated[
        UUID | None, typer.Argument(metavar="[ID]", help="The id that `tocsin send` printed.")
    ] = None,
    type_: OfType = None,
    producer: OfProducer = None,
    key_prefix: KeyPrefix = None,
    org_id: OfOrganisation = None,
    since: Since = None,
    until: Until = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count what would be cancelled.")] = False,
    by: By = None,
    as_json: AsJson = False,
) -> None:
    """Cancel what has not been sent: of one notification, or of all that the options select."""
    found = read_filter(
        type_=type_, producer=producer, key_prefix=key_prefix, org_id=org_id, since=since, until=until
    )
    given = CancelFilter(**{name: getattr(found, name) for name in CancelFilter.__struct_fields__})
    if (notification_id is None) == (given == CancelFilter()):
        fail("Give the id of a notification, or options such as --type that select several.", code=2)
    if notification_id is None:
        _cancel_selected(CancelRequest(filter=given, dry_run=dry_run), operator(by), as_json)
    elif dry_run:
        fail("--dry-run counts what options such as --type select; look at one by `tocsin show`.", code=2)
    else:
        _cancel_one(notification_id, as_json)


def _cancel_one(notification_id: UUID, as_json: bool) -> None:
    if remote := over_http():
        answer = remote.find(Cancelled, "POST", "notifications", notification_id, "cancel")
        count = None if answer is None else answer.cancelled
    else:
        count = at_database_time(lambda connection, now: _cancel(connection, notification_id, now))
    if count is None:
        fail(f"There is no notification {notification_id}.")
    print_result(
        {"notification_id": notification_id, "cancelled": count},
        as_json,
        f"Cancelled {plural(count, 'delivery', 'deliveries')}.",
    )


async def _cancel(connection: "Connection", notification_id: UUID, now: datetime) -> int | None:
    from tocsin.store import notifications
    from tocsin.store.deliveries import holds

    if await notifications.get(connection, notification_id) is None:
        return None
    return await holds.cancel(connection, notification_id, now)


def _cancel_selected(request: CancelRequest, who: str, as_json: bool) -> None:
    def ask(wanted: CancelRequest) -> CancelledByQuery:
        if remote := over_http():
            return remote.call(CancelledByQuery, "POST", "admin", "notifications", "cancel", body=wanted)
        from tocsin.engine.settle.cancelling import cancel_by_query

        return at_database_time(lambda connection, now: cancel_by_query(connection, wanted, who, now))

    total = _repeat(ask, request)
    shown = msgspec.to_builtins(total) | {"dry_run": request.dry_run}
    del shown["next_cursor"]
    flying = f"; {total.in_flight} are being sent and may arrive" if total.in_flight else ""
    line = (
        f"{plural(total.matched, 'delivery', 'deliveries')} would be cancelled"
        if request.dry_run
        else f"Cancelled {plural(total.cancelled, 'delivery', 'deliveries')}"
    )
    print_result(shown, as_json, f"{line}{flying}.")


def _repeat(ask: Callable[[CancelRequest], CancelledByQuery], request: CancelRequest) -> CancelledByQuery:
    """Make call after call until nothing is left; return the sums, with their progress on a terminal."""
    title = "counting" if request.dry_run else "cancelling"
    columns = TextColumn(f"{title}: {{task.completed}} deliveries"), TimeElapsedColumn()
    matched = cancelled = in_flight = 0
    with Progress(*columns, console=errors, disable=not errors.is_terminal, transient=True) as bar:
        task = bar.add_task(title, total=None)
        while True:
            answer = ask(request)
            matched += answer.matched
            cancelled += answer.cancelled
            in_flight += answer.in_flight
            bar.update(task, completed=matched)
            if answer.next_cursor is None:
                return CancelledByQuery(
                    matched=matched, cancelled=cancelled, in_flight=in_flight, next_cursor=None
                )
            request = msgspec.structs.replace(request, cursor=answer.next_cursor)
