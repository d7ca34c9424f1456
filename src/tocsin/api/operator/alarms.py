"""The operator's calls about alarms."""

from typing import Annotated, Any
from uuid import UUID

import msgspec
from litestar import Request, get, post
from litestar.response.base import ASGIResponse

from tocsin.api.auth.access import holder_of
from tocsin.api.auth.roles import Right
from tocsin.api.http.problems import INVALID_QUERY, NOT_FOUND, ProblemError
from tocsin.api.http.queries import LAST, read_path_id, read_query
from tocsin.api.http.replies import reply
from tocsin.api.operations import KeyMay, Operation, Tag, declared
from tocsin.api.services import services_of
from tocsin.engine.health.provider_health import AlarmRecord, alarm_record
from tocsin.store.health import provider_health as health


class AlarmsQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A stretch of a list that goes back in time; with `cleared`, past alarms too."""

    cleared: bool = False
    before: UUID | None = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=100)] = 50


class AlarmPage(msgspec.Struct, frozen=True):
    """Alarms, newest first; `next` is the `before` of the following page."""

    alarms: list[AlarmRecord]
    next: UUID | None


@get(
    "/v1/admin/alarms",
    opt=declared(
        Operation(
            tag=Tag.ADMIN,
            summary="List alarms, newest first",
            access=KeyMay(Right.SEE_TOGGLES),
            query=AlarmsQuery,
            answers={200: AlarmPage},
            problems=(INVALID_QUERY,),
        )
    ),
)
async def list_alarms(request: Request[Any, Any, Any]) -> ASGIResponse:
    """List what an operator has to act on."""
    query = read_query(request, AlarmsQuery)
    async with services_of(request).pool.acquire() as connection:
        rows = await health.list_alarms(
            connection, cleared=query.cleared, before=query.before or LAST, limit=query.limit
        )
    shown = [alarm_record(row) for row in rows]
    return reply(AlarmPage(shown, rows[-1].id if len(rows) == query.limit else None))


@post(
    "/v1/admin/alarms/{alarm_id:str}/clear",
    status_code=200,
    opt=declared(
        Operation(
            tag=Tag.ADMIN,
            summary="Clear an alarm; if its cause is still there, it is raised anew",
            access=KeyMay(Right.CHANGE_TOGGLES),
            answers={200: AlarmRecord},
            problems=(NOT_FOUND,),
        )
    ),
)
async def clear_alarm(request: Request[Any, Any, Any]) -> ASGIResponse:
    """Clear a standing alarm."""
    services, holder = services_of(request), holder_of(request)
    alarm_id = read_path_id(request, "alarm_id")
    async with services.pool.acquire() as connection:
        row = await health.clear_alarm(
            connection, alarm_id, f"{holder.producer} (key {holder.key_id})", services.clock()
        )
    if row is None:
        raise ProblemError(NOT_FOUND, "No alarm with this id stands; it may have been cleared already.")
    return reply(alarm_record(row))
