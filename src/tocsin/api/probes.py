"""The probes of a machine: is the process alive, is it ready."""

import asyncio
from typing import Any, Literal

import asyncpg
import msgspec
from litestar import Request, get
from litestar.response.base import ASGIResponse

from tocsin.api.http.problems import NOT_READY, ProblemError
from tocsin.api.http.replies import reply
from tocsin.api.operations import AnyoneMay, Operation, Tag, declared
from tocsin.api.services import services_of
from tocsin.store.migrate import pending_migrations
from tocsin.store.pool import Pool

LONGEST_CHECK_SECONDS = 3.0


class Health(msgspec.Struct, frozen=True):
    """What a probe is told when all is well."""

    status: Literal["ok", "ready"]


@get(
    "/healthz",
    opt=declared(
        Operation(tag=Tag.PROBES, summary="The process is alive", access=AnyoneMay(), answers={200: Health})
    ),
)
async def healthz() -> ASGIResponse:
    """Answer, which is all there is to it."""
    return reply(Health("ok"))


@get(
    "/readyz",
    opt=declared(
        Operation(
            tag=Tag.PROBES,
            summary="The database answers and its migrations are done",
            access=AnyoneMay(),
            answers={200: Health},
            problems=(NOT_READY,),
        )
    ),
)
async def readyz(request: Request[Any, Any, Any]) -> ASGIResponse:
    """Ask the database now."""
    services = services_of(request)
    try:
        async with asyncio.timeout(LONGEST_CHECK_SECONDS):
            pending = await _pending(services.pool, services.schema)
    except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError):
        raise ProblemError(NOT_READY, "The database does not answer.") from None
    if pending:
        raise ProblemError(NOT_READY, f"These migrations are not done: {', '.join(pending)}.")
    return reply(Health("ready"))


async def _pending(pool: Pool, schema: str) -> list[str]:
    async with pool.acquire() as connection:
        return await pending_migrations(connection, schema)
