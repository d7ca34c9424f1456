"""The operator's calls that switch types, channels and providers off and on."""

from datetime import datetime
from typing import Annotated, Any, ClassVar

import msgspec
from litestar import Request, get, put
from litestar.response.base import ASGIResponse
from msgspec import Meta

from tocsin.api.auth.access import holder_of
from tocsin.api.auth.roles import Right
from tocsin.api.http.bodies import Checked, decode
from tocsin.api.http.checks import not_blank
from tocsin.api.http.problems import BODY_TOO_LARGE, INVALID_BODY, INVALID_QUERY, MALFORMED_JSON, Kind, faulty
from tocsin.api.http.queries import read_path, read_query
from tocsin.api.http.replies import reply
from tocsin.api.operations import KeyMay, Operation, Tag, declared
from tocsin.api.services import services_of
from tocsin.catalog.catalog import Catalog
from tocsin.domain.faults import Fault
from tocsin.domain.toggles import Note, Toggle, doubt, read_toggle
from tocsin.store import toggles
from tocsin.store.toggles import ToggleChange, ToggleRow


class SwitchToggle(Checked, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """On or off, and why."""

    checks: ClassVar = {"reason": not_blank}

    enabled: bool
    reason: Note | None = None


class SwitchedToggle(msgspec.Struct, frozen=True, kw_only=True):
    """A toggle as it is now; `warnings` tells why it may have no effect."""

    name: str
    enabled: bool
    reason: str | None
    updated_by: str
    updated_at: datetime
    warnings: list[str]


class ToggleList(msgspec.Struct, frozen=True):
    """The toggles that were ever switched, those that are off first; every other is on."""

    toggles: list[ToggleRow]


class HistoryQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A stretch of a history that goes back in time: what came before a change, at most so many."""

    before: Annotated[int, Meta(ge=1, le=toggles.LAST)] = toggles.LAST
    limit: Annotated[int, Meta(ge=1, le=100)] = 50


class ToggleHistory(msgspec.Struct, frozen=True):
    """The changes of a toggle, newest first; `next` is the `before` of the following page."""

    changes: list[ToggleChange]
    next: int | None


@get(
    "/v1/admin/toggles",
    opt=declared(
        Operation(
            tag=Tag.ADMIN,
            summary="List toggles, those that are off first",
            access=KeyMay(Right.SEE_TOGGLES),
            answers={200: ToggleList},
        )
    ),
)
async def list_toggles(request: Request[Any, Any, Any]) -> ASGIResponse:
    """List what was ever switched."""
    return reply(ToggleList(await toggles.list_all(services_of(request).pool)))


@put(
    "/v1/admin/toggles/{name:str}",
    opt=declared(
        Operation(
            tag=Tag.ADMIN,
            summary="Switch a toggle; every process knows within a second",
            access=KeyMay(Right.CHANGE_TOGGLES),
            body=SwitchToggle,
            answers={200: SwitchedToggle},
            problems=(MALFORMED_JSON, BODY_TOO_LARGE, INVALID_BODY),
            example={"enabled": False, "reason": "the template is wrong"},
        )
    ),
)
async def switch_toggle(request: Request[Any, Any, Any]) -> ASGIResponse:
    """Switch a toggle off or on."""
    services, holder = services_of(request), holder_of(request)
    toggle = _named(request, INVALID_BODY)
    wanted = decode(await request.body(), SwitchToggle)
    async with services.pool.acquire() as connection:
        row = await toggles.change(
            connection,
            str(toggle),
            enabled=wanted.enabled,
            reason=wanted.reason,
            by=f"{holder.producer} (key {holder.key_id})",
            now=services.clock(),
        )
    return reply(SwitchedToggle(**msgspec.structs.asdict(row), warnings=_warnings(request, toggle)))


@get(
    "/v1/admin/toggles/{name:str}/history",
    opt=declared(
        Operation(
            tag=Tag.ADMIN,
            summary="List who switched a toggle, newest first",
            access=KeyMay(Right.SEE_TOGGLES),
            query=HistoryQuery,
            answers={200: ToggleHistory},
            problems=(INVALID_QUERY,),
        )
    ),
)
async def toggle_history(request: Request[Any, Any, Any]) -> ASGIResponse:
    """List the changes of one toggle."""
    toggle, page = _named(request, INVALID_QUERY), read_query(request, HistoryQuery)
    changes = await toggles.history(
        services_of(request).pool, str(toggle), before=page.before, limit=page.limit
    )
    return reply(ToggleHistory(changes, changes[-1].id if len(changes) == page.limit else None))


def _named(request: Request[Any, Any, Any], refusal: Kind) -> Toggle:
    toggle = read_toggle(read_path(request, "name"))
    if isinstance(toggle, Fault):
        raise faulty(refusal, [toggle])
    return toggle


def _warnings(request: Request[Any, Any, Any], toggle: Toggle) -> list[str]:
    catalog: Catalog | None = request.app.state.catalog
    found = doubt(toggle, catalog.types) if catalog else None
    return [found] if found else []
