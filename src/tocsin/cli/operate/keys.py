"""`tocsin keys`."""

from typing import Annotated
from uuid import UUID

import typer

from tocsin.api.auth.api_keys import create_key
from tocsin.api.auth.roles import Role
from tocsin.api.http.conversion import copy_fields
from tocsin.api.operator.admin import ApiKey, ApiKeyList, CreateKey, ProducerName
from tocsin.cli.access import at_database_time, checked, over_http, with_connection
from tocsin.cli.output import AsJson, fail, moment, print_result, print_rows
from tocsin.cli.server import NoAnswerError, Remote
from tocsin.client.errors import NotFoundError
from tocsin.store import keys
from tocsin.store.keys import KeyRow

app = typer.Typer(name="keys", help="API keys for producers and operators.", no_args_is_help=True)


@app.command()
def create(
    producer: Annotated[str, typer.Argument(help="Who will use it, e.g. billing.")],
    role: Annotated[Role, typer.Option(help="What it may do.")] = Role.PRODUCER,
    as_json: AsJson = False,
) -> None:
    """Create a key and show it, this once."""
    allowed = "letters, digits, dots, dashes and underscores"
    producer = checked(producer, ProducerName, f"{producer[:80]!r} is no name for a producer: {allowed}.")
    if remote := over_http():
        created = _create_over_http(remote, CreateKey(producer=producer, role=role))
        key_id, secret = created.key_id, str(created.key)
    else:
        made = at_database_time(lambda connection, now: create_key(connection, producer, role, now))
        key_id, secret = made.row.id, made.secret
    print_result(
        {"id": key_id, "producer": producer, "role": role, "key": secret},
        as_json,
        f"Key for {producer} ({role}), shown only now:",
        secret,
    )


@app.command("list")
def list_keys(as_json: AsJson = False) -> None:
    """List the keys, newest first; the secrets are not stored."""
    print_rows(
        [_row(key) for key in remote.call(ApiKeyList, "GET", "admin", "keys").keys]
        if (remote := over_http())
        else with_connection(keys.list_all),
        as_json,
        empty="There are no keys yet: tocsin keys create PRODUCER",
        cells=_cells,
    )


@app.command()
def revoke(
    key_id: Annotated[UUID, typer.Argument(help="The id that `tocsin keys list` shows.")],
    as_json: AsJson = False,
) -> None:
    """Revoke a key; it stops working within five seconds."""
    try:
        row = (
            _row(remote.call(ApiKey, "DELETE", "admin", "keys", key_id))
            if (remote := over_http())
            else at_database_time(lambda connection, now: keys.revoke(connection, key_id, now))
        )
    except NotFoundError:
        row = None
    if row is None:
        fail(f"There is no key {key_id}.")
    print_result(row, as_json, f"Revoked the key of {row.producer} that ends in {row.hint}.")


def _create_over_http(remote: Remote, wanted: CreateKey) -> ApiKey:
    """Create a key by one request: a repeated one would create a second key."""
    try:
        return remote.call_once(ApiKey, "POST", "admin", "keys", body=wanted)
    except NoAnswerError as error:
        raise NoAnswerError(
            f"{error} A key may have been created all the same, without being shown: look for it by "
            "`tocsin keys list`, revoke it by `tocsin keys revoke ID`, and create another."
        ) from error


def _row(key: ApiKey) -> KeyRow:
    return copy_fields(KeyRow, key, id=key.key_id)


def _cells(row: KeyRow) -> dict[str, object]:
    state = f"revoked {moment(row.revoked_at)}" if row.revoked_at else "live"
    return {"id": row.id, "producer": row.producer, "role": row.role, "ends in": row.hint, "state": state}
