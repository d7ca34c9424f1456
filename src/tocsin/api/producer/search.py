"""Searching notifications by what became of them."""

from uuid import UUID

import msgspec

from tocsin.api.auth.roles import Right
from tocsin.api.http.organisations import within_organisation
from tocsin.api.http.problems import INVALID_QUERY, NOT_ALLOWED, ProblemError, faults_problem
from tocsin.api.http.queries import PageLimit
from tocsin.api.http.requests import ApiRequest
from tocsin.api.routes import Routes, Tag
from tocsin.engine.inspect.search import search
from tocsin.wire.filters import DeliveryFilter, filter_faults
from tocsin.wire.search import SearchPage

routes = Routes(Tag.NOTIFICATIONS)


class SearchQuery(DeliveryFilter, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A page of what matches a filter: at most `limit` notifications, older than `cursor`."""

    cursor: UUID | None = None
    limit: PageLimit = 50


@routes(
    "GET /v1/notifications",
    "Search notifications by what became of them, newest first; a producer sees its own",
    Right.SEE_OWN,
    within_organisation=True,
)
async def search_notifications(request: ApiRequest, query: SearchQuery) -> SearchPage:
    """Return the notifications with deliveries that match."""
    return await find_notifications(request, query)


async def find_notifications(request: ApiRequest, query: SearchQuery) -> SearchPage:
    """Search what the caller may see; raise a problem if the filter has faults."""
    if faults := filter_faults(query):
        raise faults_problem(INVALID_QUERY, *faults)
    holder = request.holder
    given = within_organisation(request, query)
    if not holder.may(Right.SEE_ALL):
        if given.producer not in {None, holder.producer}:
            raise ProblemError(NOT_ALLOWED, "The caller's role allows to search its own producer only.")
        given = msgspec.structs.replace(given, producer=holder.producer)
    default_zone = request.services.explainer.rules.quiet.default_timezone
    async with request.pool.acquire() as connection:
        return await search(
            connection,
            given,
            request.now(),
            cursor=query.cursor,
            limit=query.limit,
            default_zone=default_zone,
        )
