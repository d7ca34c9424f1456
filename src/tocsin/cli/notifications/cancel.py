"""`tocsin cancel`."""

from datetime import datetime
from uuid import UUID

from tocsin.cli.access import at_database_time, over_http
from tocsin.cli.notifications.show import Id
from tocsin.cli.output import AsJson, fail, plural, print_result
from tocsin.client.errors import NotFoundError
from tocsin.store import notifications
from tocsin.store.deliveries import holds
from tocsin.store.pool import Connection
from tocsin.wire.notifications import Cancelled


def cancel(notification_id: Id, as_json: AsJson = False) -> None:
    """Cancel the deliveries of a notification that have not been sent."""
    try:
        count = (
            remote.call(Cancelled, "POST", "notifications", notification_id, "cancel").cancelled
            if (remote := over_http())
            else at_database_time(lambda connection, now: _cancel(connection, notification_id, now))
        )
    except NotFoundError:
        count = None
    if count is None:
        fail(f"There is no notification {notification_id}.")
    print_result(
        {"notification_id": notification_id, "cancelled": count},
        as_json,
        f"Cancelled {plural(count, 'delivery', 'deliveries')}.",
    )


async def _cancel(connection: Connection, notification_id: UUID, now: datetime) -> int | None:
    if await notifications.get(connection, notification_id) is None:
        return None
    return await holds.cancel(connection, notification_id, now)
