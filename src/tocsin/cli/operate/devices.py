"""`tocsin devices`."""

from typing import Annotated

import msgspec
import typer

from tocsin.cli.access import with_pool
from tocsin.cli.output import AsJson, console, moment, print_json, table
from tocsin.domain.people.devices import short_hash
from tocsin.settings import Settings
from tocsin.store.people import devices
from tocsin.store.people.devices import DeviceRow
from tocsin.store.pool import Pool

app = typer.Typer(help="The devices of a person.", no_args_is_help=True)


@app.command("list")
def list_devices(
    user_id: Annotated[str, typer.Argument(help="The application's own user id.")],
    retired: Annotated[bool, typer.Option("--retired", help="Show retired devices too.")] = False,
    as_json: AsJson = False,
) -> None:
    """List a person's devices; tokens are shown as the start of their hash."""

    async def work(_: Settings, pool: Pool) -> list[DeviceRow]:
        async with pool.acquire() as connection:
            return await devices.of_user(connection, user_id, include_retired=retired)

    rows = with_pool(work)
    if as_json:
        print_json([_as_fields(row) for row in rows])
        return
    if not rows:
        console.print(f"User {user_id} has no {'' if retired else 'active '}devices.")
        return
    shown = table("device", "by", "seen", "state")
    for row in rows:
        shown.add_row(
            f"{row.id}\n  token {short_hash(row.token_hash)}, {row.notification_count} sent",
            f"{row.provider}/{row.platform}",
            moment(row.last_seen_at),
            _state(row),
        )
    console.print(shown)


def _as_fields(row: DeviceRow) -> dict[str, object]:
    fields = msgspec.structs.asdict(row)
    fields["token_hash"] = short_hash(row.token_hash)
    fields["stale"] = row.stale_at is not None
    return fields


def _state(row: DeviceRow) -> str:
    if row.retired_at:
        return f"retired ({row.retired_reason})"
    if not row.push_enabled:
        return "no consent"
    return "active" if row.stale_at is None else "stale"
