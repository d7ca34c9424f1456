"""`tocsin devices`."""

from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from tocsin.cli.access import with_connection
from tocsin.cli.output import AsJson, print_json, print_rows
from tocsin.domain.people.devices import short_hash

if TYPE_CHECKING:
    from tocsin.store.people.devices import DeviceRow

app = typer.Typer(name="devices", help="The devices of a person.", no_args_is_help=True)


@app.command("list")
def list_devices(
    user_id: Annotated[str, typer.Argument(help="The application's own user id.")],
    retired: Annotated[bool, typer.Option("--retired", help="Show retired devices too.")] = False,
    as_json: AsJson = False,
) -> None:
    """List a person's devices; tokens are shown as the start of their hash."""
    from tocsin.store.people import devices

    rows = with_connection(devices.of_user, user_id, include_retired=retired)
    if as_json:
        print_json([_as_fields(row) for row in rows])
        return
    print_rows(
        rows,
        as_json,
        empty=f"User {user_id} has no {'' if retired else 'active '}devices.",
        cells=_cells,
    )


def _cells(row: "DeviceRow") -> dict[str, object]:
    name = f"{row.id}\n  token {short_hash(row.token_hash)}, {row.notification_count} sent"
    by = f"{row.provider}/{row.platform}"
    return {"device": name, "by": by, "seen": row.last_seen_at, "state": _state(row)}


def _as_fields(row: "DeviceRow") -> dict[str, object]:
    fields = msgspec.structs.asdict(row)
    return fields | {"token_hash": short_hash(row.token_hash), "stale": row.stale_at is not None}


def _state(row: "DeviceRow") -> str:
    if row.retired_at:
        return f"retired ({row.retired_reason})"
    if not row.push_enabled:
        return "no consent"
    return "active" if row.stale_at is None else "stale"
