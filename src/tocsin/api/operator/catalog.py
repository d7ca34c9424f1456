"""The operator's calls about the catalogs that the processes use."""

from datetime import datetime

import msgspec

from tocsin.api.auth.roles import Right
from tocsin.api.http.requests import ApiRequest
from tocsin.api.routes import Routes, Tag
from tocsin.engine.catalog_watch import problems
from tocsin.store import processes
from tocsin.store.processes import ProcessRow

routes = Routes(Tag.ADMIN)


class CatalogStatus(msgspec.Struct, frozen=True):
    """The processes that run, each with the fingerprint of its catalog, and what is wrong by alarm code."""

    processes: list[ProcessRow]
    problems: dict[str, str]


class ReloadRequest(msgspec.Struct, frozen=True):
    """When the processes were asked to read their catalogs; null if none runs."""

    asked_at: datetime | None


@routes("GET /v1/admin/catalog", "Show the catalog that each process uses", Right.SEE_TOGGLES)
async def catalog_status(request: ApiRequest) -> CatalogStatus:
    """List the processes with their catalogs."""
    alive = await processes.alive(request.pool)
    return CatalogStatus(alive, problems(alive))


@routes(
    "POST /v1/admin/catalog/reload",
    "Have every process read its catalog again; one with faults keeps the catalog it has",
    Right.CHANGE_TOGGLES,
)
async def reload_catalog(request: ApiRequest) -> ReloadRequest:
    """Ask every process to read its catalog."""
    return ReloadRequest(await processes.ask_reload(request.pool))
