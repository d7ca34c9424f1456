"""The operator's calls about what waits."""

from typing import Annotated

from msgspec import Meta

from tocsin.api.auth.roles import Right
from tocsin.api.http.queries import Query
from tocsin.api.http.requests import ApiRequest
from tocsin.api.routes import Routes, Tag
from tocsin.domain.timing.moments import LONGEST_AHEAD
from tocsin.engine.inspect.queue import Queue, Schedule, read_queue, read_schedule

routes = Routes(Tag.ADMIN)


class Ahead(Query, frozen=True, kw_only=True):
    """How many hours to look ahead, this one included."""

    hours: Annotated[int, Meta(ge=1, le=LONGEST_AHEAD)] = 24


@routes(
    "GET /v1/admin/queue", "Show what waits in each lane, since when, and how fast it is sent", Right.SEE_ALL
)
async def show_queue(request: ApiRequest) -> Queue:
    """Count what waits in each lane."""
    async with request.pool.acquire() as connection:
        return await read_queue(connection, request.services.providers, request.now())


@routes("GET /v1/admin/scheduled", "Show what leaves when, by hour, type and time zone", Right.SEE_ALL)
async def show_schedule(request: ApiRequest, query: Ahead) -> Schedule:
    """Count what leaves in each of the next hours."""
    return await find_schedule(request, query)


async def find_schedule(request: ApiRequest, query: Ahead) -> Schedule:
    """Count what leaves in each of the next hours, by type and time zone."""
    default_zone = request.services.explainer.rules.quiet.default_timezone
    async with request.pool.acquire() as connection:
        return await read_schedule(connection, query.hours, request.now(), default_zone)
