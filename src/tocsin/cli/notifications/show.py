"""`tocsin show`."""

from typing import Annotated
from uuid import UUID

import typer

from tocsin.cli.access import with_pool
from tocsin.cli.notifications.timeline import print_timeline
from tocsin.cli.output import AsJson, complain, print_json
from tocsin.engine.clock import utc_now
from tocsin.engine.inspect.show import show as read
from tocsin.settings import Settings
from tocsin.store.pool import Pool
from tocsin.wire.notifications import Notification


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("show")(show)


def show(
    notification_id: Annotated[UUID, typer.Argument(metavar="ID", help="A notification's id.")],
    as_json: AsJson = False,
) -> None:
    """Show a notification with its deliveries, their states and reasons."""

    async def work(_: Settings, pool: Pool) -> Notification | None:
        async with pool.acquire() as connection:
            return await read(connection, notification_id, utc_now())

    shown = with_pool(work)
    if shown is None:
        complain(f"There is no notification {notification_id}.")
        raise typer.Exit(1)
    if as_json:
        print_json(shown)
    else:
        print_timeline(shown)
