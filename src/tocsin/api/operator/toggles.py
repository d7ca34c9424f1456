"""The operator's calls that switch types, channels and providers off and on."""

from typing import Annotated, Any, ClassVar

from msgspec import Meta

from tocsin.api.auth.roles import Right
from tocsin.api.bodies import ToggleHistory, ToggleList
from tocsin.api.http.conversion import copy_fields
from tocsin.api.http.problems import INVALID_BODY, INVALID_QUERY, ProblemType, faults_problem
from tocsin.api.http.queries import PageLimit, Query, next_cursor
from tocsin.api.http.requests import ApiRequest
from tocsin.api.routes import Routes, Tag
from tocsin.domain.faults import Fault
from tocsin.domain.toggles import Note, ProviderToggle, Toggle, discard_fault, doubt, read_toggle
from tocsin.engine.toggles.held import (
    SwitchedToggle,
    ToggleState,
    discard_and_switch_on,
    list_states,
    switch,
)
from tocsin.store import toggles
from tocsin.wire.checks import Checked, not_blank

routes = Routes(Tag.ADMIN)


class SwitchToggle(Checked, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The new state of a toggle, and the reason.

    With `discard`, what the toggle held is cancelled before it is switched on.
    """

    checks: ClassVar = {"reason": not_blank}

    enabled: bool
    reason: Note | None = None
    discard: bool = False


class HistoryQuery(Query, frozen=True, kw_only=True):
    """A page of a history, newest first: at most `limit` changes older than the change `before`."""

    before: Annotated[int, Meta(ge=1, le=toggles.LAST)] = toggles.LAST
    limit: PageLimit = 50


@routes("GET /v1/admin/toggles", "List toggles, those that are off first", Right.SEE_TOGGLES)
async def list_toggles(request: ApiRequest) -> ToggleList:
    """List the toggles that were ever switched, with how many deliveries wait because of each."""
    return ToggleList(await find_toggles(request))


async def find_toggles(request: ApiRequest) -> list[ToggleState]:
    """List the toggles that were ever switched, those that are off first."""
    async with request.pool.acquire() as connection:
        return await list_states(connection, request.now())


@routes(
    "PUT /v1/admin/toggles/{name}",
    "Switch a toggle; every process applies it within a second",
    Right.CHANGE_TOGGLES,
    example={"enabled": False, "reason": "the template is wrong"},
)
async def switch_toggle(request: ApiRequest, name: str, body: SwitchToggle) -> SwitchedToggle:
    """Switch a toggle off or on."""
    return await change_toggle(request, name, body)


async def change_toggle(request: ApiRequest, name: str, body: SwitchToggle) -> SwitchedToggle:
    """Switch a toggle; raise a problem if there can be none of that name."""
    toggle = _parse_name(name, INVALID_BODY)
    if body.discard and (fault := discard_fault(toggle, enabled=body.enabled)):
        raise faults_problem(INVALID_BODY, fault)
    change: dict[str, Any] = {"reason": body.reason, "by": request.actor, "now": request.now()}
    async with request.pool.acquire() as connection:
        if body.discard and not isinstance(toggle, ProviderToggle):
            row, discarded = await discard_and_switch_on(connection, toggle, **change)
        else:
            row, discarded = await switch(connection, toggle, enabled=body.enabled, **change), 0
    warning = doubt(toggle, request.catalog.types) if request.catalog else None
    return copy_fields(SwitchedToggle, row, warnings=[warning] if warning else [], discarded=discarded)


@routes("GET /v1/admin/toggles/{name}/history", "List who switched a toggle, newest first", Right.SEE_TOGGLES)
async def toggle_history(request: ApiRequest, name: str, query: HistoryQuery) -> ToggleHistory:
    """List the changes of one toggle."""
    return await find_changes(request, name, query)


async def find_changes(request: ApiRequest, name: str, query: HistoryQuery) -> ToggleHistory:
    """List the changes of a toggle; raise a problem if there can be none of that name."""
    toggle = _parse_name(name, INVALID_QUERY)
    changes = await toggles.history(request.pool, str(toggle), before=query.before, limit=query.limit)
    return ToggleHistory(changes, next_cursor(changes, query.limit, lambda change: change.id))


def _parse_name(name: str, invalid: ProblemType) -> Toggle:
    toggle = read_toggle(name)
    if isinstance(toggle, Fault):
        raise faults_problem(invalid, toggle)
    return toggle
