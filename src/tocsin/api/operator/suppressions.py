"""The operator's calls about suppressed addresses, which are sent no mail."""

from typing import Annotated, ClassVar

import msgspec
from msgspec import Meta

from tocsin.api.auth.roles import Right
from tocsin.api.bodies import RemovedSuppression, SuppressionPage
from tocsin.api.http.problems import INVALID_QUERY, NOT_FOUND, ProblemError, fault_problem
from tocsin.api.http.queries import PageLimit, Query, next_cursor
from tocsin.api.http.requests import ApiRequest
from tocsin.api.routes import Routes, Tag
from tocsin.domain.intent import EmailAddress, Moment
from tocsin.domain.timing.moments import moment_faults
from tocsin.domain.toggles import Note
from tocsin.store.people import suppressions
from tocsin.store.people.suppressions import NEWEST, Suppression, SuppressionCursor
from tocsin.wire.checks import Checked, not_blank

routes = Routes(Tag.ADMIN)


class SuppressAddress(Checked, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The reason for suppressing an address."""

    checks: ClassVar = {"reason": not_blank}

    reason: Note = "manual"


class SuppressionsQuery(Query, frozen=True, kw_only=True):
    """A page of the list, newest first: at most `limit` items after the cursor `before`."""

    before: Annotated[str, Meta(max_length=300)] | None = None
    limit: PageLimit = 50


@routes(
    "GET /v1/admin/suppressions", "List addresses that are sent no mail, newest first", Right.SEE_SUPPRESSIONS
)
async def list_suppressions(request: ApiRequest, query: SuppressionsQuery) -> SuppressionPage:
    """List suppressed addresses with their reasons."""
    return await find_suppressions(request, query)


async def find_suppressions(request: ApiRequest, query: SuppressionsQuery) -> SuppressionPage:
    """List suppressed addresses; raise a problem if the cursor is none."""
    rows = await suppressions.page(request.pool, before=_parse_cursor(query.before), limit=query.limit)
    return SuppressionPage(rows, next_cursor(rows, query.limit, _cursor))


@routes(
    "PUT /v1/admin/suppressions/{address}",
    "Send an address no mail from now on",
    Right.CHANGE_SUPPRESSIONS,
    example={"reason": "asked by phone"},
)
async def suppress_address(request: ApiRequest, address: str, body: SuppressAddress) -> Suppression:
    """Suppress an address."""
    return await add_suppression(request, address, body.reason)


async def add_suppression(request: ApiRequest, address: str, reason: str) -> Suppression:
    """Suppress an address; raise a problem if it is none."""
    try:
        checked = msgspec.convert(address, EmailAddress)
    except msgspec.ValidationError:
        raise fault_problem("address", "invalid", "must be a mail address, such as ada@example.org") from None
    async with request.pool.acquire() as connection:
        return await suppressions.suppress_as(
            connection, checked, reason=reason, now=request.now(), actor=request.actor
        )


@routes(
    "DELETE /v1/admin/suppressions/{address}",
    "Send an address mail again",
    Right.CHANGE_SUPPRESSIONS,
    problems=(NOT_FOUND,),
)
async def remove_suppression(request: ApiRequest, address: str) -> RemovedSuppression:
    """Remove a suppression."""
    return await lift_suppression(request, address)


async def lift_suppression(request: ApiRequest, address: str) -> RemovedSuppression:
    """Remove a suppression; raise a problem if there is none."""
    if "\0" not in address:
        async with request.pool.acquire() as connection:
            if await suppressions.remove_as(connection, address, actor=request.actor):
                return RemovedSuppression(address.lower())
    raise ProblemError(NOT_FOUND, "This address is not suppressed.")


def _parse_cursor(text: str | None) -> SuppressionCursor:
    if text is None:
        return NEWEST
    moment, _, address = text.partition("~")
    try:
        at = msgspec.convert(moment, Moment)
    except msgspec.ValidationError:
        at = None
    if at is None or moment_faults("before", at) or not address or "\0" in address:
        raise fault_problem("before", "invalid", "must be the `next` of the page before", INVALID_QUERY)
    return SuppressionCursor(at, address)


def _cursor(row: Suppression) -> str:
    return f"{msgspec.to_builtins(row.suppressed_at)}~{row.address}"
