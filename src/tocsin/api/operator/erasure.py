"""The operator's calls about a person as a whole: erasure and export."""

from collections.abc import AsyncIterator
from typing import Any

from litestar.response.base import ASGIResponse
from litestar.response.streaming import ASGIStreamingResponse

from tocsin.api.auth.roles import Right
from tocsin.api.http.organisations import reachable_user
from tocsin.api.http.problems import NOT_FOUND, UNAVAILABLE, ProblemError
from tocsin.api.http.requests import ApiRequest
from tocsin.api.routes import JSON, Routes, Tag
from tocsin.engine.retention.erase import Eraser, Erasure, OtherErasureError, subject_of
from tocsin.engine.retention.export import Exporter
from tocsin.store import audit

routes = Routes(Tag.USERS)


@routes(
    "DELETE /v1/users/{user_id}",
    "Erase a person: devices, directory, preferences, counters and payloads go; anonymous counts stay",
    Right.ERASE_USERS,
    problems=(NOT_FOUND,),
    within_organisation=True,
)
async def erase_user(request: ApiRequest, user_id: str) -> Erasure:
    """Erase a person; what waits for them is cancelled. Repeating it is harmless."""
    return await erase_person(request, user_id)


async def erase_person(request: ApiRequest, user_id: str) -> Erasure:
    """Erase a person whom the caller may see."""
    eraser, checked = (
        Eraser(request.pool, request.catalog, request.now),
        await reachable_user(request, user_id),
    )
    try:
        return await eraser.erase(checked, request.actor, request.holder.org_id)
    except OtherErasureError as error:
        raise ProblemError(UNAVAILABLE, str(error), headers={"Retry-After": "60"}) from None


@routes(
    "GET /v1/users/{user_id}/export",
    "Export everything that is stored about a person",
    Right.ERASE_USERS,
    problems=(NOT_FOUND,),
    answer=dict[str, Any],
    within_organisation=True,
)
async def export_user(request: ApiRequest, user_id: str) -> ASGIResponse:
    """Return one JSON document, streamed."""
    document = await export_person(request, user_id)
    return ASGIStreamingResponse(iterator=document, media_type=JSON)


async def export_person(request: ApiRequest, user_id: str) -> AsyncIterator[bytes]:
    """Record the export of a person whom the caller may see, and return its parts."""
    checked = await reachable_user(request, user_id)
    await audit.record(request.pool, actor=request.actor, action="user.export", subject=subject_of(checked))
    return Exporter(request.pool, request.catalog, request.holder.org_id).export(checked, request.now())
