"""The operator's view of one person."""

from typing import Annotated

from msgspec import Meta

from tocsin.api.auth.roles import Right
from tocsin.api.http.organisations import reachable_user
from tocsin.api.http.problems import NOT_ALLOWED, NOT_FOUND, ProblemError
from tocsin.api.http.queries import Query
from tocsin.api.http.requests import ApiRequest
from tocsin.api.routes import Routes, Tag
from tocsin.engine.inspect.person import Person, read_person

routes = Routes(Tag.ADMIN)


class Newest(Query, frozen=True, kw_only=True):
    """How many of the person's notifications to list."""

    limit: Annotated[int, Meta(ge=1, le=100)] = 20


@routes(
    "GET /v1/admin/people/{user_id}",
    "Show how a person is reached, and what they got and did not get",
    Right.SEE_ALL,
    problems=(NOT_FOUND,),
    within_organisation=True,
)
async def show_person(request: ApiRequest, user_id: str, query: Newest) -> Person:
    """Return devices, preferences, time zone, limits used and the newest deliveries of a person."""
    if not request.holder.may(Right.SEE_USERS):
        raise ProblemError(NOT_ALLOWED, request.holder.lacks(Right.SEE_USERS))
    return await find_person(request, user_id, query.limit)


async def find_person(request: ApiRequest, user_id: str, limit: int) -> Person:
    """Read a person whom the caller may see; raise a problem if nothing is known of them."""
    checked, rules = await reachable_user(request, user_id), request.services.explainer.rules
    async with request.pool.acquire() as connection:
        person = await read_person(
            connection, rules, checked, request.now(), limit=limit, org_id=request.holder.org_id
        )
    if person is None:
        raise ProblemError(NOT_FOUND, "Nothing is known of such a user.")
    return person
