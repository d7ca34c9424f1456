"""The operator's calls about the catalogs that the processes use."""

from tocsin.api.auth.roles import Right
from tocsin.api.bodies import CatalogStatus, ReloadRequest
from tocsin.api.http.requests import ApiRequest
from tocsin.api.routes import Routes, Tag
from tocsin.engine.catalog_watch import problems
from tocsin.store import processes

routes = Routes(Tag.ADMIN)


@routes("GET /v1/admin/catalog", "Show the catalog that each process uses", Right.SEE_TOGGLES)
async def catalog_status(request: ApiRequest) -> CatalogStatus:
    """List the processes with their catalogs."""
    return await find_catalogs(request)


async def find_catalogs(request: ApiRequest) -> CatalogStatus:
    """List the processes that run with their catalogs, and what is wrong with these."""
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
