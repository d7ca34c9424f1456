"""`tocsin show`."""

from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from tocsin.cli.access import at_database_time, default_timezone, over_http
from tocsin.cli.notifications.timeline import print_timeline
from tocsin.cli.output import AsJson, fail, print_json
from tocsin.wire.notifications import Notification

if TYPE_CHECKING:
    from tocsin.store.pool import Connection

Id = Annotated[str, typer.Argument(metavar="ID", help="A notification's id, or that of its stream entry.")]


def show(notification_id: Id, as_json: AsJson = False) -> None:
    """Show a notification with its deliveries, their states and reasons."""
    shown = (
        remote.find(Notification, "GET", "notifications", notification_id)
        if (remote := over_http())
        else at_database_time(lambda connection, now: _read(connection, notification_id, now))
    )
    if shown is None:
        fail(f"There is no notification {notification_id[:200]}.")
    if as_json:
        print_json(shown)
    else:
        print_timeline(shown)


async def _read(connection: "Connection", text: str, now: datetime) -> Notification | None:
    from tocsin.engine.inspect.show import identify
    from tocsin.engine.inspect.show import show as read

    found = await identify(connection, text)
    return await read(connection, found, now, default_timezone()) if found else None
