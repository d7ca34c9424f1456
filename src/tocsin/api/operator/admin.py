"""The operator's calls about refused intents and API keys."""

from datetime import datetime
from typing import Annotated
from uuid import UUID

import msgspec

from tocsin.api.auth.api_keys import create_key
from tocsin.api.auth.roles import Right, Role
from tocsin.api.http.conversion import copy_fields
from tocsin.api.http.problems import NOT_FOUND, ProblemError
from tocsin.api.http.queries import Page, next_cursor
from tocsin.api.http.requests import ApiRequest
from tocsin.api.routes import Routes, Tag
from tocsin.store import keys, refused

ProducerName = Annotated[
    str, msgspec.Meta(min_length=1, max_length=100, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*\Z")
]

routes = Routes(Tag.ADMIN)


class Refused(msgspec.Struct, frozen=True, kw_only=True):
    """An intent that was not accepted, and why."""

    refused_id: UUID
    producer: str
    source: str
    code: str
    type: str | None
    idempotency_key: str | None
    faults: msgspec.Raw
    content: str
    refused_at: datetime


class RefusedPage(msgspec.Struct, frozen=True):
    """Refused intents, newest first; `next` is the `before` of the following page."""

    refused: list[Refused]
    next: UUID | None


class CreateKey(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The producer and the role of a new API key."""

    producer: ProducerName
    role: Role


class ApiKey(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An API key; `key` itself is only in the answer to its creation."""

    key_id: UUID
    producer: str
    role: Role
    hint: str
    created_at: datetime
    last_used_at: datetime | None
    revoked_at: datetime | None
    key: str | None = None


class ApiKeyList(msgspec.Struct, frozen=True):
    """Every API key, newest first."""

    keys: list[ApiKey]


@routes("GET /v1/admin/refused", "List refused intents, newest first", Right.SEE_REFUSED)
async def list_refused(request: ApiRequest, query: Page) -> RefusedPage:
    """List refused intents with their faults."""
    rows = await refused.list_recent(request.pool, query.cursor, query.limit)
    return RefusedPage(list(map(refused_entry, rows)), next_cursor(rows, query.limit, lambda row: row.id))


def refused_entry(row: refused.RefusedIntent) -> Refused:
    """Return a refused intent as it is listed."""
    return copy_fields(Refused, row, refused_id=row.id, faults=msgspec.Raw(row.faults.encode()))


@routes("GET /v1/admin/keys", "List API keys", Right.KEYS)
async def list_keys(request: ApiRequest) -> ApiKeyList:
    """List the keys without their secrets."""
    return ApiKeyList([_api_key(row) for row in await keys.list_all(request.pool)])


@routes(
    "POST /v1/admin/keys",
    "Make an API key; it is shown this once",
    Right.KEYS,
    status=201,
    example={"producer": "billing", "role": "producer"},
)
async def make_key(request: ApiRequest, body: CreateKey) -> ApiKey:
    """Create a key."""
    made = await create_key(request.pool, body.producer, body.role, request.now())
    return _api_key(made.row, made.secret)


@routes(
    "DELETE /v1/admin/keys/{key_id}", "Revoke an API key; it stops working within five seconds", Right.KEYS
)
async def revoke_key(request: ApiRequest, key_id: UUID) -> ApiKey:
    """Revoke a key."""
    row = await keys.revoke(request.pool, key_id, request.now())
    if row is None:
        raise ProblemError(NOT_FOUND, "There is no such API key.")
    return _api_key(row)


def _api_key(row: keys.KeyRow, secret: str | None = None) -> ApiKey:
    return copy_fields(ApiKey, row, key_id=row.id, role=Role(row.role), key=secret)
