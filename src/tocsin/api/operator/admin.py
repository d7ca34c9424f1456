"""The operator's calls: refused intents, API keys."""

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

import msgspec
from litestar import Request, delete, get, post
from litestar.response.base import ASGIResponse

from tocsin.api.auth.api_keys import create_key
from tocsin.api.auth.roles import Right, Role
from tocsin.api.http.bodies import decode
from tocsin.api.http.problems import (
    BODY_TOO_LARGE,
    INVALID_BODY,
    INVALID_QUERY,
    MALFORMED_JSON,
    NOT_FOUND,
    ProblemError,
)
from tocsin.api.http.queries import LAST, Page, read_path_id, read_query
from tocsin.api.http.replies import reply
from tocsin.api.operations import KeyMay, Operation, Tag, declared
from tocsin.api.services import services_of
from tocsin.store import keys, refused
from tocsin.store.keys import KeyRow

ProducerName = Annotated[
    str, msgspec.Meta(min_length=1, max_length=100, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*\Z")
]


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
    """Whom a key is for and what it may do."""

    producer: ProducerName
    role: Role


class ApiKey(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An API key; `key` itself is there only in the answer that made it."""

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


@get(
    "/v1/admin/refused",
    opt=declared(
        Operation(
            tag=Tag.ADMIN,
            summary="List refused intents, newest first",
            access=KeyMay(Right.SEE_REFUSED),
            query=Page,
            answers={200: RefusedPage},
            problems=(INVALID_QUERY,),
        )
    ),
)
async def list_refused(request: Request[Any, Any, Any]) -> ASGIResponse:
    """List what producers got wrong."""
    page = read_query(request, Page)
    rows = await refused.list_recent(services_of(request).pool, page.before or LAST, page.limit)
    shown = [
        Refused(
            refused_id=row.id,
            producer=row.producer,
            source=row.source,
            code=row.code,
            type=row.type,
            idempotency_key=row.idempotency_key,
            faults=msgspec.Raw(row.faults.encode()),
            content=row.content,
            refused_at=row.refused_at,
        )
        for row in rows
    ]
    return reply(RefusedPage(shown, rows[-1].id if len(rows) == page.limit else None))


@get(
    "/v1/admin/keys",
    opt=declared(
        Operation(
            tag=Tag.ADMIN,
            summary="List API keys",
            access=KeyMay(Right.KEYS),
            answers={200: ApiKeyList},
        )
    ),
)
async def list_keys(request: Request[Any, Any, Any]) -> ASGIResponse:
    """List the keys without their secrets."""
    rows = await keys.list_all(services_of(request).pool)
    return reply(ApiKeyList([_shown(row) for row in rows]))


@post(
    "/v1/admin/keys",
    status_code=201,
    opt=declared(
        Operation(
            tag=Tag.ADMIN,
            summary="Make an API key; it is shown this once",
            access=KeyMay(Right.KEYS),
            body=CreateKey,
            answers={201: ApiKey},
            problems=(MALFORMED_JSON, BODY_TOO_LARGE, INVALID_BODY),
            example={"producer": "billing", "role": "producer"},
        )
    ),
)
async def make_key(request: Request[Any, Any, Any]) -> ASGIResponse:
    """Make a key."""
    services = services_of(request)
    wanted = decode(await request.body(), CreateKey)
    made = await create_key(services.pool, wanted.producer, wanted.role, services.clock())
    return reply(_shown(made.row, made.secret), 201)


@delete(
    "/v1/admin/keys/{key_id:str}",
    status_code=200,
    opt=declared(
        Operation(
            tag=Tag.ADMIN,
            summary="Revoke an API key; it stops working within five seconds",
            access=KeyMay(Right.KEYS),
            answers={200: ApiKey},
            problems=(NOT_FOUND,),
        )
    ),
)
async def revoke_key(request: Request[Any, Any, Any]) -> ASGIResponse:
    """Take a key back."""
    services = services_of(request)
    row = await keys.revoke(services.pool, read_path_id(request, "key_id"), services.clock())
    if row is None:
        raise ProblemError(NOT_FOUND, "There is no such API key.")
    return reply(_shown(row))


def _shown(row: KeyRow, secret: str | None = None) -> ApiKey:
    return ApiKey(
        key_id=row.id,
        producer=row.producer,
        role=Role(row.role),
        hint=row.hint,
        created_at=row.created_at,
        last_used_at=row.last_used_at,
        revoked_at=row.revoked_at,
        key=secret,
    )
