"""The operator's calls about a person as a whole: erasure and export."""

from typing import Any

from litestar.response.base import ASGIResponse
from litestar.response.streaming import ASGIStreamingResponse

from tocsin.api.auth.roles import Right
from tocsin.api.http.problems import NOT_FOUND
from tocsin.api.http.requests import ApiRequest, checked_user_id
from tocsin.api.routes import JSON, Routes, Tag
from tocsin.engine.retention.erase import Eraser, Erasure, subject_of
from tocsin.engine.retention.export import Exporter
from tocsin.store import audit

routes = Routes(Tag.USERS)


@routes(
    "DELETE /v1/users/{user_id}",
    "Erase a person: devices, directory, preferences, counters and payloads go; anonymous counts stay",
    Right.ERASE_USERS,
    problems=(NOT_FOUND,),
)
async def erase_user(request: ApiRequest, user_id: str) -> Erasure:
    """Erase a person; what waits for them is cancelled. Repeating it is harmless."""
    eraser = Eraser(request.pool, request.catalog, request.now)
    return await eraser.erase(checked_user_id(user_id), request.actor)


@routes(
    "GET /v1/users/{user_id}/export",
    "Export everything that is stored about a person",
    Right.ERASE_USERS,
    problems=(NOT_FOUND,),
    answer=dict[str, Any],
)
async def export_user(request: ApiRequest, user_id: str) -> ASGIResponse:
    """Return one JSON document, streamed."""
    checked = checked_user_id(user_id)
    await audit.record(request.pool, actor=request.actor, action="user.export", subject=subject_of(checked))
    document = Exporter(request.pool, request.catalog).export(checked, request.now())
    return ASGIStreamingResponse(iterator=document, media_type=JSON)
