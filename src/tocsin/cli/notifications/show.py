"""`tocsin show`."""

from datetime import datetime
from typing import Annotated

import typer

from tocsin.cli.access import at_database_time, over_http
from tocsin.cli.notifications.timeline import print_timeline
from tocsin.cli.output import AsJson, fail, print_json
from tocsin.client.errors import NotFoundError
from tocsin.engine.inspect.show import identify
from tocsin.engine.inspect.show import show as read
from tocsin.store.pool import Connection
from tocsin.wire.notifications import Notification

Id = Annotated[str, typer.Argument(metavar="ID", help="A notification's id, or that of its stream entry.")]


def show(notification_id: Id, as_json: AsJson = False) -> None:
    """Show a notification with its deliveries, their states and reasons."""
    try:
        shown = (
            remote.call(Notification, "GET", "notifications", notification_id)
            if (remote := over_http())
            else at_database_time(lambda connection, now: _read(connection, notification_id, now))
        )
    except NotFoundError:
        shown = None
    if shown is None:
        fail(f"There is no notification {notification_id[:200]}.")
    if as_json:
        print_json(shown)
    else:
        print_timeline(shown)


async def _read(connection: Connection, text: str, now: datetime) -> Notification | None:
    found = await identify(connection, text)
    return await read(connection, found, now) if found else None
