"""The operator's calls about alarms."""

from uuid import UUID

from tocsin.api.auth.roles import Right
from tocsin.api.bodies import AlarmPage
from tocsin.api.http.problems import NOT_FOUND, ProblemError
from tocsin.api.http.queries import Page, next_cursor
from tocsin.api.http.requests import ApiRequest
from tocsin.api.routes import Routes, Tag
from tocsin.store.health import provider_health as health
from tocsin.store.health.provider_health import AlarmRecord

routes = Routes(Tag.ADMIN)


class AlarmsQuery(Page, frozen=True, kw_only=True):
    """A page of alarms; with `cleared`, past alarms too."""

    cleared: bool = False


@routes("GET /v1/admin/alarms", "List alarms, newest first", Right.SEE_TOGGLES)
async def list_alarms(request: ApiRequest, query: AlarmsQuery) -> AlarmPage:
    """List what an operator has to act on."""
    return await find_alarms(request, query)


async def find_alarms(request: ApiRequest, query: AlarmsQuery) -> AlarmPage:
    """List alarms, newest first."""
    alarms = await health.list_alarms(
        request.pool, cleared=query.cleared, before=query.cursor, limit=query.limit
    )
    return AlarmPage(alarms, next_cursor(alarms, query.limit, lambda alarm: alarm.alarm_id))


@routes(
    "POST /v1/admin/alarms/{alarm_id}/clear",
    "Clear an alarm; if its cause is still there, it is raised anew",
    Right.CHANGE_TOGGLES,
)
async def clear_alarm(request: ApiRequest, alarm_id: UUID) -> AlarmRecord:
    """Clear a standing alarm."""
    alarm = await health.clear_alarm(request.pool, alarm_id, request.actor, request.now())
    if alarm is None:
        raise ProblemError(NOT_FOUND, "No alarm with this id stands; it may have been cleared already.")
    return alarm
