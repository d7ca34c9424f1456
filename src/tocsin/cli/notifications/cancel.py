"""`tocsin cancel`."""

from typing import Annotated
from uuid import UUID

import typer

from tocsin.cli.access import with_pool
from tocsin.cli.output import AsJson, complain, console, print_json
from tocsin.engine.clock import utc_now
from tocsin.settings import Settings
from tocsin.store import notifications
from tocsin.store.deliveries import holds
from tocsin.store.pool import Pool


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("cancel")(cancel)


def cancel(
    notification_id: Annotated[UUID, typer.Argument(metavar="ID", help="A notification's id.")],
    as_json: AsJson = False,
) -> None:
    """Cancel the deliveries of a notification that have not been sent."""

    async def work(_: Settings, pool: Pool) -> int | None:
        async with pool.acquire() as connection:
            if await notifications.get(connection, notification_id) is None:
                return None
            return await holds.cancel(connection, notification_id, utc_now())

    count = with_pool(work)
    if count is None:
        complain(f"There is no notification {notification_id}.")
        raise typer.Exit(1)
    if as_json:
        print_json({"notification_id": notification_id, "cancelled": count})
    else:
        console.print(f"Cancelled {count} {'delivery' if count == 1 else 'deliveries'}.")
