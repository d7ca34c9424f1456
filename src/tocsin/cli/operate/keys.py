"""`tocsin keys`."""

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, TypeVar
from uuid import UUID

import typer
from rich.progress import Progress, TextColumn, TimeElapsedColumn

from tocsin.api.auth.roles import Role
from tocsin.cli.access import (
    By,
    at_database_time,
    checked,
    database_time,
    operator,
    over_http,
    with_connection,
    with_pool,
)
from tocsin.cli.options import parse_span
from tocsin.cli.output import AsJson, errors, fail, moment, plural, print_result, print_rows
from tocsin.domain.intent import UserId
from tocsin.domain.people.organisations import OrgId

if TYPE_CHECKING:
    from tocsin.api.auth.api_keys import NewKey
    from tocsin.api.bodies import ApiKey, CreateKey
    from tocsin.api.producer.webhook_secrets import WebhookWithSecret
    from tocsin.cli.remote import Remote
    from tocsin.engine.data_keys import RotatedData
    from tocsin.engine.webpush_keys import RotatedWebPushKey
    from tocsin.settings.tree import Settings
    from tocsin.store.keys import KeyRow
    from tocsin.store.pool import Pool

Answer = TypeVar("Answer")

app = typer.Typer(name="keys", help="API keys for producers and operators.", no_args_is_help=True)


@app.command()
def create(
    producer: Annotated[str, typer.Argument(help="Who will use it, e.g. billing.")],
    role: Annotated[Role, typer.Option(help="What it may do.")] = Role.PRODUCER,
    org_id: Annotated[
        str | None,
        typer.Option("--org", metavar="ORG", help="Bind it to this organisation: it reaches nobody else."),
    ] = None,
    by: By = None,
    as_json: AsJson = False,
) -> None:
    """Create a key and show it, this once."""
    from tocsin.api.bodies import DELIVERY_IS_FOR_ALL, ApiKey, CreateKey

    producer, who = _checked_name(producer), operator(by)
    if org_id is not None:
        if role is Role.DELIVERY:
            fail(f"--org {DELIVERY_IS_FOR_ALL}.", code=2)
        org_id = checked(org_id, OrgId, "--org must be 1 to 128 characters without control characters.")
    if remote := over_http():
        wanted = CreateKey(producer=producer, role=role, org_id=org_id)
        created = _call_once(remote, ApiKey, "admin", "keys", body=wanted)
        key_id, secret = created.key_id, str(created.key)
    else:
        made = with_pool(
            lambda settings, pool: _create(
                settings, pool, CreateKey(producer=producer, role=role, org_id=org_id), who
            )
        )
        key_id, secret = made.row.id, made.secret
    print_result(
        {"id": key_id, "producer": producer, "role": role, "org_id": org_id, "key": secret},
        as_json,
        f"Key for {producer} ({role}{'' if org_id is None else f', organisation {org_id}'}), shown only now:",
        secret,
    )


async def _create(settings: "Settings", pool: "Pool", wanted: "CreateKey", who: str) -> "NewKey":
    from tocsin.api.auth.api_keys import OtherOrganisationError, create_key
    from tocsin.api.bodies import SCOPING_OFF

    if wanted.org_id is not None and not settings.auth.org_scoping:
        fail(f"--org {SCOPING_OFF}.", code=2)
    async with pool.acquire() as connection, connection.transaction():
        now = await database_time(connection)
        try:
            return await create_key(
                connection, wanted.producer, wanted.role, now, actor=who, org_id=wanted.org_id
            )
        except OtherOrganisationError as error:
            fail(str(error))


@app.command()
def rotate(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The producer of the key, or its id.")],
    overlap: Annotated[
        str,
        typer.Option(
            metavar="SPAN", help="How long the old key works, e.g. 30m, 24h, 7d; 0 ends it at once."
        ),
    ] = "24h",
    by: By = None,
    as_json: AsJson = False,
) -> None:
    """Create a key in place of another, which works until the overlap ends, and show it, this once."""
    from tocsin.api.auth.api_keys import LONGEST_OVERLAP, AmbiguousKeyError, rotate_key
    from tocsin.api.bodies import RotatedApiKey, RotateKey
    from tocsin.client.errors import NotFoundError

    name, span, who = _checked_name(name), parse_span("--overlap", overlap, LONGEST_OVERLAP), operator(by)
    try:
        if remote := over_http():
            wanted = RotateKey(overlap_seconds=int(span.total_seconds()))
            answer = _call_once(remote, RotatedApiKey, "admin", "keys", name, "rotate", body=wanted)
            made, secret, replaced = _row(answer.created), answer.created.key, _row(answer.replaced)
        else:
            rotated = at_database_time(
                lambda connection, now: rotate_key(connection, name, span, now, actor=who)
            )
            if rotated is None:
                fail(f"There is no key of {name} to rotate: tocsin keys list")
            made, secret, replaced = rotated.made.row, rotated.made.secret, rotated.replaced
    except NotFoundError:
        fail(f"There is no key of {name} to rotate: tocsin keys list")
    except AmbiguousKeyError as error:
        fail(str(error))
    print_result(
        {
            "id": made.id,
            "producer": made.producer,
            "role": made.role,
            "key": secret,
            "replaces": replaced.id,
            "replaced_works_until": replaced.expires_at,
        },
        as_json,
        f"New key for {made.producer} ({made.role}), shown only now:",
        str(secret),
        f"The key that ends in {replaced.hint} "
        + (f"works until {moment(replaced.expires_at)}." if span else "no longer works."),
    )


@app.command("rotate-vapid")
def rotate_vapid(
    discard_old: Annotated[
        bool,
        typer.Option(
            "--discard-old",
            help="Discard the old keys, at once: browsers that subscribed with them get nothing more.",
        ),
    ] = False,
    by: By = None,
    as_json: AsJson = False,
) -> None:
    """Add a key of Web Push for new subscriptions; earlier ones stay with the key they were made with."""
    from tocsin.client.errors import NotFoundError
    from tocsin.engine.webpush_keys import RotatedWebPushKey

    who, wanted = operator(by), {"discard_old": discard_old}
    try:
        rotated = (
            remote.call_once(RotatedWebPushKey, "POST", "admin", "webpush", "rotate", body=wanted)
            if (remote := over_http())
            else with_pool(lambda settings, pool: _rotate_vapid(settings, pool, discard_old, who))
        )
    except NotFoundError:
        rotated = None
    if rotated is None:
        fail("No key of Web Push is stored: it is generated when Web Push is first started.")
    print_result(
        rotated,
        as_json,
        f"New key of Web Push {rotated.key_id}; pages get it from {moment(rotated.active_at)} on.",
        "The old keys are discarded: their browsers subscribe again at their next visit."
        if discard_old
        else "Browsers that subscribed with an older key are sent to with that one.",
    )


async def _rotate_vapid(
    settings: "Settings", pool: "Pool", discard_old: bool, who: str
) -> "RotatedWebPushKey | None":
    from tocsin.engine.webpush_keys import KEY_IN_FILE, rotate_webpush_key
    from tocsin.providers.webpush.settings import WebPushSettings

    if settings.provider(WebPushSettings).private_key_file is not None:
        fail(f"TOCSIN_WEBPUSH__PRIVATE_KEY_FILE {KEY_IN_FILE}.", code=2)
    async with pool.acquire() as connection:
        return await rotate_webpush_key(connection, discard_old=discard_old, actor=who)


@app.command("rotate-webhook")
def rotate_webhook(
    user_id: Annotated[str, typer.Argument(metavar="USER", help="Whose webhook endpoint it is.")],
    endpoint_id: Annotated[
        UUID | None,
        typer.Argument(metavar="[ENDPOINT]", help="The id of the endpoint, if the user has several."),
    ] = None,
    overlap: Annotated[
        str,
        typer.Option(
            metavar="SPAN", help="How long the old secret signs too, e.g. 30m, 24h, 7d; 0 ends it at once."
        ),
    ] = "24h",
    by: By = None,
    as_json: AsJson = False,
) -> None:
    """Replace the secret of a webhook endpoint and show the new one, this once."""
    from tocsin.api.producer.webhook_secrets import RotateWebhook, WebhookWithSecret
    from tocsin.client.errors import NotFoundError
    from tocsin.providers.webhook.signing import LONGEST_OVERLAP
    from tocsin.store.secrets.sealing import SealedError

    user_id = checked(user_id, UserId, f"{user_id[:80]!r} is not a user id.")
    span, who = parse_span("--overlap", overlap, LONGEST_OVERLAP), operator(by)
    if endpoint_id is None:
        endpoint_id = _only_endpoint(user_id)
    try:
        if remote := over_http():
            path = ("users", user_id, "webhooks", endpoint_id, "rotate")
            wanted = RotateWebhook(overlap_seconds=int(span.total_seconds()))
            changed: WebhookWithSecret | None = remote.call_once(
                WebhookWithSecret, "POST", *path, body=wanted
            )
        else:
            changed = with_pool(
                lambda settings, pool: _rotate_secret(settings, pool, user_id, endpoint_id, span, who)
            )
    except NotFoundError:
        changed = None
    except SealedError as error:
        fail(f"The secret cannot be read: {error}. Set TOCSIN_DATA__PREVIOUS_KEYS.")
    if changed is None:
        fail(f"User {user_id} has no active webhook endpoint {endpoint_id}.")
    print_result(
        changed,
        as_json,
        f"New secret of the endpoint {changed.endpoint_id}, shown only now:",
        changed.secret,
        f"The old one signs too for {overlap}." if span else "The old one no longer signs.",
    )


def _only_endpoint(user_id: str) -> UUID:
    """Return the user's one active endpoint, or fail with a list of those there are."""
    from tocsin.api.producer.webhook_secrets import WebhookList
    from tocsin.store.people.endpoints import webhook as endpoints

    found = (
        [each.endpoint_id for each in remote.call(WebhookList, "GET", "users", user_id, "webhooks").webhooks]
        if (remote := over_http())
        else [row.id for row in with_connection(endpoints.of_user, user_id, include_retired=False)]
    )
    if not found:
        fail(f"User {user_id} has no active webhook endpoint.")
    if len(found) > 1:
        fail(f"User {user_id} has several webhook endpoints; give one: {', '.join(map(str, found))}.")
    return found[0]


async def _rotate_secret(
    settings: "Settings", pool: "Pool", user_id: str, endpoint_id: UUID, overlap: timedelta, who: str
) -> "WebhookWithSecret | None":
    from tocsin.api.producer.webhook_secrets import rotate_secret
    from tocsin.store.secrets.sealing import data_keys

    async with pool.acquire() as connection:
        now = await database_time(connection)
    keys = data_keys(settings.data)
    return await rotate_secret(pool, user_id, endpoint_id, overlap, now, actor=who, keys=keys)


@app.command("rotate-data")
def rotate_all(by: By = None, as_json: AsJson = False) -> None:
    """Encrypt stored device tokens and webhook secrets with the current data key.

    Without a current key (TOCSIN_DATA__KEY) those that are encrypted become plain text again. It runs beside
    everything else; if it is stopped, run it again.
    """
    from tocsin.engine.data_keys import rotate_data
    from tocsin.store.secrets.sealing import data_keys

    who = operator(by)
    columns = TextColumn("{task.completed} rows"), TimeElapsedColumn()
    with Progress(*columns, console=errors, disable=not errors.is_terminal, transient=True) as bar:
        task = bar.add_task("rows", total=None)

        async def rotate(settings: "Settings", pool: "Pool") -> "RotatedData":
            keys = data_keys(settings.data)
            if not keys.ids:
                fail(
                    "No data key is set: TOCSIN_DATA__KEY, or TOCSIN_DATA__PREVIOUS_KEYS to decrypt.", code=2
                )
            return await rotate_data(
                pool, keys, actor=who, progress=lambda seen: bar.update(task, completed=seen)
            )

        done = with_pool(rotate)
    print_result(
        done,
        as_json,
        f"Rewrote {plural(done.rewritten, 'row', 'rows')} with the data key {done.key_id}."
        if done.key_id
        else f"Decrypted {plural(done.rewritten, 'row', 'rows')}.",
        f"{plural(done.left, 'row is', 'rows are')} left."
        + (f" {done.unreadable} cannot be read with the keys that are set." if done.unreadable else ""),
    )
    if done.left:
        raise typer.Exit(1)


@app.command("list")
def list_keys(as_json: AsJson = False) -> None:
    """List the keys, newest first; the secrets are not stored."""
    if remote := over_http():
        from tocsin.api.bodies import ApiKeyList

        rows = [_row(key) for key in remote.call(ApiKeyList, "GET", "admin", "keys").keys]
    else:
        from tocsin.store import keys

        rows = with_connection(keys.list_all)
    print_rows(rows, as_json, empty="There are no keys yet: tocsin keys create PRODUCER", cells=_cells)


@app.command()
def revoke(
    key_id: Annotated[UUID, typer.Argument(help="The id that `tocsin keys list` shows.")],
    by: By = None,
    as_json: AsJson = False,
) -> None:
    """Revoke a key and those that it replaced; they stop working within five seconds."""
    from tocsin.api.auth.api_keys import revoke_key
    from tocsin.api.bodies import ApiKey

    who = operator(by)
    if remote := over_http():
        found = remote.find(ApiKey, "DELETE", "admin", "keys", key_id)
        row = None if found is None else _row(found)
    else:
        row = at_database_time(lambda connection, now: revoke_key(connection, key_id, now, actor=who))
    if row is None:
        fail(f"There is no key {key_id}.")
    print_result(row, as_json, f"Revoked the key of {row.producer} that ends in {row.hint}.")


def _checked_name(name: str) -> str:
    from tocsin.api.bodies import ProducerName

    allowed = "letters, digits, dots, dashes and underscores"
    return checked(name, ProducerName, f"{name[:80]!r} is no name for a producer: {allowed}.")


def _call_once(remote: "Remote", answer: type[Answer], *path: object, body: object) -> Answer:
    """Create a key by one request: a repeated one would create a second key."""
    from tocsin.cli.remote import NoAnswerError

    try:
        return remote.call_once(answer, "POST", *path, body=body)
    except NoAnswerError as error:
        raise NoAnswerError(
            f"{error} A key may have been created all the same, without being shown: look for it by "
            "`tocsin keys list`, revoke it by `tocsin keys revoke ID`, and create another."
        ) from error


def _row(key: "ApiKey") -> "KeyRow":
    from tocsin.api.http.conversion import copy_fields
    from tocsin.store.keys import KeyRow

    return copy_fields(KeyRow, key, id=key.key_id)


def _cells(row: "KeyRow") -> dict[str, object]:
    state = "live"
    if row.revoked_at:
        state = f"revoked {moment(row.revoked_at)}"
    elif row.expires_at:
        state = f"replaced, until {moment(row.expires_at)}"
    role = row.role if row.org_id is None else f"{row.role} of {row.org_id}"
    return {"id": row.id, "producer": row.producer, "role": role, "ends in": row.hint, "state": state}
