"""The operator's calls about addresses that are sent no mail."""

from datetime import datetime
from typing import Annotated, Any, ClassVar

import msgspec
from litestar import Request, delete, get, put
from litestar.response.base import ASGIResponse
from msgspec import Meta

from tocsin.api.auth.roles import Right
from tocsin.api.http.bodies import Checked, decode
from tocsin.api.http.checks import not_blank
from tocsin.api.http.problems import (
    BODY_TOO_LARGE,
    INVALID_BODY,
    INVALID_QUERY,
    MALFORMED_JSON,
    NOT_FOUND,
    ProblemError,
    faulty,
)
from tocsin.api.http.queries import read_path, read_query
from tocsin.api.http.replies import reply
from tocsin.api.operations import KeyMay, Operation, Tag, declared
from tocsin.api.services import services_of
from tocsin.domain.faults import Fault
from tocsin.domain.intent import EmailAddress
from tocsin.domain.toggles import Note
from tocsin.store.people import suppressions
from tocsin.store.people.suppressions import NEWEST, Suppression, SuppressionCursor


class SuppressAddress(Checked, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Why an address is to be sent nothing."""

    checks: ClassVar = {"reason": not_blank}

    reason: Note = "manual"


class SuppressionsQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A stretch of the list that goes back in time: what came before a place, at most so many."""

    before: Annotated[str, Meta(max_length=300)] | None = None
    limit: Annotated[int, Meta(ge=1, le=100)] = 50


class SuppressionPage(msgspec.Struct, frozen=True):
    """Addresses that are sent nothing, newest first; `next` is the `before` of the following page."""

    suppressions: list[Suppression]
    next: str | None


class RemovedSuppression(msgspec.Struct, frozen=True):
    """An address that is sent mail again."""

    address: str


@get(
    "/v1/admin/suppressions",
    opt=declared(
        Operation(
            tag=Tag.ADMIN,
            summary="List addresses that are sent no mail, newest first",
            access=KeyMay(Right.SEE_SUPPRESSIONS),
            query=SuppressionsQuery,
            answers={200: SuppressionPage},
            problems=(INVALID_QUERY,),
        )
    ),
)
async def list_suppressions(request: Request[Any, Any, Any]) -> ASGIResponse:
    """List who is sent nothing and why."""
    query = read_query(request, SuppressionsQuery)
    rows = await suppressions.page(
        services_of(request).pool, before=_read_cursor(query.before), limit=query.limit
    )
    return reply(SuppressionPage(rows, _write_place(rows[-1]) if len(rows) == query.limit else None))


@put(
    "/v1/admin/suppressions/{address:str}",
    opt=declared(
        Operation(
            tag=Tag.ADMIN,
            summary="Send an address no mail from now on",
            access=KeyMay(Right.CHANGE_SUPPRESSIONS),
            body=SuppressAddress,
            answers={200: Suppression},
            problems=(MALFORMED_JSON, BODY_TOO_LARGE, INVALID_BODY),
            example={"reason": "asked by phone"},
        )
    ),
)
async def suppress_address(request: Request[Any, Any, Any]) -> ASGIResponse:
    """Suppress an address."""
    services = services_of(request)
    address = _read_address(request)
    wanted = decode(await request.body(), SuppressAddress)
    return reply(
        await suppressions.suppress(services.pool, address, reason=wanted.reason, now=services.clock())
    )


@delete(
    "/v1/admin/suppressions/{address:str}",
    status_code=200,
    opt=declared(
        Operation(
            tag=Tag.ADMIN,
            summary="Send an address mail again",
            access=KeyMay(Right.CHANGE_SUPPRESSIONS),
            answers={200: RemovedSuppression},
            problems=(NOT_FOUND,),
        )
    ),
)
async def remove_suppression(request: Request[Any, Any, Any]) -> ASGIResponse:
    """Lift a suppression."""
    address = read_path(request, "address")
    if "\0" in address or not await suppressions.remove(services_of(request).pool, address):
        raise ProblemError(NOT_FOUND, "This address is not suppressed.")
    return reply(RemovedSuppression(address.lower()))


def _read_address(request: Request[Any, Any, Any]) -> str:
    try:
        return msgspec.convert(read_path(request, "address"), EmailAddress)
    except msgspec.ValidationError:
        message = "must be a mail address, such as ada@example.org"
        raise faulty(INVALID_BODY, [Fault(field="address", code="invalid", message=message)]) from None


def _read_cursor(text: str | None) -> SuppressionCursor:
    if text is None:
        return NEWEST
    moment, _, address = text.partition("~")
    try:
        at = msgspec.convert(moment, Annotated[datetime, Meta(tz=True)])
    except msgspec.ValidationError:
        at = None
    if at is None or not address or "\0" in address:
        message = "must be the `next` of the page before"
        raise faulty(INVALID_QUERY, [Fault(field="before", code="invalid", message=message)])
    return SuppressionCursor(at, address)


def _write_place(row: Suppression) -> str:
    return f"{msgspec.to_builtins(row.suppressed_at)}~{row.address}"
