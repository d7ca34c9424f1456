"""Calls of machines: liveness, readiness, and the description of the API."""

import asyncio
from typing import Any, Literal

import asyncpg
import msgspec

from tocsin.api.http.problems import NOT_READY, RETRY_SOON, ProblemError
from tocsin.api.http.requests import ApiRequest
from tocsin.api.routes import PUBLIC, Routes, Tag
from tocsin.store.migrate import read_ledger
from tocsin.store.pool import AWAY, Pool
from tocsin.wire.filters import ServerTime

LONGEST_CHECK_SECONDS = 3.0

routes = Routes(Tag.PROBES)


class Health(msgspec.Struct, frozen=True, omit_defaults=True):
    """The answer of a probe that succeeds; `catalog` is the fingerprint of the catalog in use."""

    status: Literal["ok", "ready"]
    catalog: str | None = None


@routes("GET /healthz", "The process is alive", PUBLIC)
async def healthz(_: ApiRequest) -> Health:
    """Answer without checking anything."""
    return Health("ok")


@routes("GET /readyz", "The database answers and its migrations are done", PUBLIC, problems=(NOT_READY,))
async def readyz(request: ApiRequest) -> Health:
    """Check the database."""
    try:
        async with asyncio.timeout(LONGEST_CHECK_SECONDS):
            fault = await _schema_fault(request.pool, request.services.schema)
    except (asyncpg.PostgresError, *AWAY):
        raise ProblemError(NOT_READY, "The database does not answer.", headers=RETRY_SOON) from None
    if fault:
        raise ProblemError(NOT_READY, fault)
    return Health("ready", request.catalog.fingerprint if request.catalog else None)


@routes("GET /v1/time", "The time of the server", PUBLIC)
async def time(request: ApiRequest) -> ServerTime:
    """Return the time that everything stored is compared by, to count a span back from it."""
    return ServerTime(request.now())


@routes("GET /openapi.json", "This description of the API", PUBLIC)
async def openapi_json(request: ApiRequest) -> dict[str, Any]:
    """Return the OpenAPI document."""
    document: dict[str, Any] = request.app.state.openapi()
    return document


async def _schema_fault(pool: Pool, schema: str) -> str | None:
    async with pool.acquire() as connection:
        return (await read_ledger(connection, schema)).fault(schema)
