"""The operator's calls about refused intents and API keys."""

from datetime import timedelta
from uuid import UUID

import msgspec

from tocsin.api.auth import api_keys
from tocsin.api.auth.api_keys import AmbiguousKeyError, OtherOrganisationError, create_key
from tocsin.api.auth.roles import Right, Role
from tocsin.api.bodies import (
    DELIVERY_IS_FOR_ALL,
    SCOPING_OFF,
    ApiKey,
    ApiKeyList,
    CreateKey,
    ProducerName,
    RefusedPage,
    RotatedApiKey,
    RotateKey,
    refused_entry,
)
from tocsin.api.http.conversion import copy_fields
from tocsin.api.http.problems import NOT_FOUND, WEBPUSH_UNAVAILABLE, ProblemError, fault_problem
from tocsin.api.http.queries import Page, next_cursor
from tocsin.api.http.requests import ApiRequest
from tocsin.api.routes import Routes, Tag
from tocsin.engine.webpush_keys import KEY_IN_FILE, RotatedWebPushKey, rotate_webpush_key
from tocsin.store import keys
from tocsin.store.sources import refused

routes = Routes(Tag.ADMIN)


_A_DAY = RotateKey()


class RotateWebPushKey(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whether the old keys of Web Push are discarded: browsers that subscribed with them get nothing."""

    discard_old: bool = False


_KEEP_OLD = RotateWebPushKey()


@routes(
    "GET /v1/admin/refused", "List refused intents, newest first", Right.SEE_REFUSED, within_organisation=True
)
async def list_refused(request: ApiRequest, query: Page) -> RefusedPage:
    """List refused intents with their faults."""
    return await find_refused(request, query)


async def find_refused(request: ApiRequest, query: Page) -> RefusedPage:
    """List refused intents that the caller may see."""
    rows = await refused.list_recent(request.pool, query.cursor, query.limit, request.holder.org_id)
    return RefusedPage(list(map(refused_entry, rows)), next_cursor(rows, query.limit, lambda row: row.id))


@routes("GET /v1/admin/keys", "List API keys", Right.KEYS)
async def list_keys(request: ApiRequest) -> ApiKeyList:
    """List the keys without their secrets."""
    return ApiKeyList(await find_keys(request))


async def find_keys(request: ApiRequest) -> list[ApiKey]:
    """List the keys, newest first."""
    return [_api_key(row) for row in await keys.list_all(request.pool)]


@routes(
    "POST /v1/admin/keys",
    "Make an API key; it is shown this once",
    Right.KEYS,
    status=201,
    example={"producer": "billing", "role": "producer"},
)
async def make_key(request: ApiRequest, body: CreateKey) -> ApiKey:
    """Create a key."""
    return await create_api_key(request, body)


async def create_api_key(request: ApiRequest, body: CreateKey) -> ApiKey:
    """Create a key and return it with its secret; raise a problem if it may not have its organisation."""
    if body.org_id is not None and not request.services.auth.org_scoping:
        raise fault_problem("org_id", "scoping_off", SCOPING_OFF)
    if body.org_id is not None and body.role is Role.DELIVERY:
        raise fault_problem("org_id", "not_for_organisations", DELIVERY_IS_FOR_ALL)
    try:
        async with request.pool.acquire() as connection, connection.transaction():
            made = await create_key(
                connection,
                body.producer,
                body.role,
                request.now(),
                actor=request.actor,
                org_id=body.org_id,
            )
    except OtherOrganisationError as error:
        raise fault_problem("producer", "other_organisation", str(error)) from None
    return _api_key(made.row, made.secret)


@routes(
    "POST /v1/admin/keys/{key}/rotate",
    "Replace an API key, by its id or its producer; the old one works until the overlap ends",
    Right.KEYS,
    status=201,
    problems=(NOT_FOUND,),
    example={"overlap_seconds": 86_400},
)
async def rotate_key(request: ApiRequest, key: str, body: RotateKey = _A_DAY) -> RotatedApiKey:
    """Rotate a key."""
    return await replace_api_key(request, key, body)


async def replace_api_key(request: ApiRequest, key: str, body: RotateKey) -> RotatedApiKey:
    """Replace a key by a new one with its secret; raise a problem if there is no such key."""
    overlap = timedelta(seconds=body.overlap_seconds)
    try:
        async with request.pool.acquire() as connection:
            rotated = await api_keys.rotate_key(
                connection, _checked_name(key), overlap, request.now(), actor=request.actor
            )
    except AmbiguousKeyError as error:
        raise fault_problem("key", "ambiguous", str(error)) from None
    if rotated is None:
        raise ProblemError(NOT_FOUND, "There is no such API key, or it was revoked or replaced.")
    return RotatedApiKey(
        created=_api_key(rotated.made.row, rotated.made.secret), replaced=_api_key(rotated.replaced)
    )


@routes(
    "DELETE /v1/admin/keys/{key_id}",
    "Revoke an API key and those that it replaced; they stop working within five seconds",
    Right.KEYS,
)
async def revoke_key(request: ApiRequest, key_id: UUID) -> ApiKey:
    """Revoke a key."""
    return await revoke_api_key(request, key_id)


async def revoke_api_key(request: ApiRequest, key_id: UUID) -> ApiKey:
    """Revoke a key; raise a problem if there is no such key."""
    async with request.pool.acquire() as connection:
        row = await api_keys.revoke_key(connection, key_id, request.now(), actor=request.actor)
    if row is None:
        raise ProblemError(NOT_FOUND, "There is no such API key.")
    return _api_key(row)


@routes(
    "POST /v1/admin/webpush/rotate",
    "Add a key of Web Push for new subscriptions; earlier ones are sent to with the key they were made with",
    Right.KEYS,
    status=201,
    problems=(WEBPUSH_UNAVAILABLE,),
    example={"discard_old": False},
)
async def rotate_webpush(request: ApiRequest, body: RotateWebPushKey = _KEEP_OLD) -> RotatedWebPushKey:
    """Rotate the key of Web Push."""
    keys_in_use = request.services.webpush_keys
    if keys_in_use is None:
        raise ProblemError(WEBPUSH_UNAVAILABLE, "Web Push is not configured: set TOCSIN_WEBPUSH__ENABLED.")
    if not keys_in_use.are_stored:
        raise fault_problem("private_key_file", "configured", KEY_IN_FILE)
    async with request.pool.acquire() as connection:
        rotated = await rotate_webpush_key(connection, discard_old=body.discard_old, actor=request.actor)
    if rotated is None:
        raise ProblemError(WEBPUSH_UNAVAILABLE, "No key of Web Push is stored yet.")
    await keys_in_use.read()
    return rotated


def _checked_name(name: str) -> str:
    try:
        return msgspec.convert(name, ProducerName)
    except msgspec.ValidationError:
        raise ProblemError(NOT_FOUND, "No API key has such an id or producer.") from None


def _api_key(row: keys.KeyRow, secret: str | None = None) -> ApiKey:
    return copy_fields(ApiKey, row, key_id=row.id, role=Role(row.role), key=secret)
