"""The operator's calls about periodic producers."""

from typing import Any

import msgspec
from litestar import Request, get, post
from litestar.response.base import ASGIResponse

from tocsin.api.auth.roles import Right
from tocsin.api.http.bodies import decode
from tocsin.api.http.problems import (
    BODY_TOO_LARGE,
    INVALID_BODY,
    MALFORMED_JSON,
    NOT_FOUND,
    ProblemError,
    faulty,
)
from tocsin.api.http.queries import read_path
from tocsin.api.http.replies import reply
from tocsin.api.operations import KeyMay, Operation, Tag, declared
from tocsin.api.services import services_of
from tocsin.domain.faults import Fault
from tocsin.engine.periodic import progress as periodic_progress
from tocsin.engine.periodic.progress import ProgressRecord, UnknownProducerError, WrongCheckpointError


class Rewind(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The checkpoint to go on from."""

    to: Any


class ProgressList(msgspec.Struct, frozen=True):
    """The periodic producers, by name."""

    producers: list[ProgressRecord]


@get(
    "/v1/admin/progress",
    opt=declared(
        Operation(
            tag=Tag.ADMIN,
            summary="Show how far the periodic producers are",
            access=KeyMay(Right.SEE_TOGGLES),
            answers={200: ProgressList},
        )
    ),
)
async def list_progress(request: Request[Any, Any, Any]) -> ASGIResponse:
    """Show state, checkpoint, times and counts of each."""
    services = services_of(request)
    async with services.pool.acquire() as connection:
        return reply(ProgressList(await periodic_progress.list_records(connection, services.clock())))


@post(
    "/v1/admin/progress/{name:str}/run",
    status_code=202,
    opt=declared(
        Operation(
            tag=Tag.ADMIN,
            summary="Ask for a run of a periodic producer now",
            access=KeyMay(Right.CHANGE_TOGGLES),
            answers={202: ProgressRecord},
            problems=(NOT_FOUND,),
        )
    ),
)
async def run_producer(request: Request[Any, Any, Any]) -> ASGIResponse:
    """Let a worker run it at once; its schedule stays as it is."""
    services = services_of(request)
    name = read_path(request, "name")
    async with services.pool.acquire() as connection:
        try:
            shown = await periodic_progress.request_run(connection, name, services.clock())
        except UnknownProducerError as error:
            raise ProblemError(NOT_FOUND, str(error)) from error
    return reply(shown, 202)


@post(
    "/v1/admin/progress/{name:str}/rewind",
    status_code=200,
    opt=declared(
        Operation(
            tag=Tag.ADMIN,
            summary="Set the checkpoint of a periodic producer; what was accepted stays accepted once",
            access=KeyMay(Right.CHANGE_TOGGLES),
            body=Rewind,
            answers={200: ProgressRecord},
            problems=(NOT_FOUND, MALFORMED_JSON, BODY_TOO_LARGE, INVALID_BODY),
            example={"to": "2026-01-31T08:00:00Z"},
        )
    ),
)
async def rewind_producer(request: Request[Any, Any, Any]) -> ASGIResponse:
    """Let the next run go on from another place."""
    services = services_of(request)
    name = read_path(request, "name")
    wanted = decode(await request.body(), Rewind)
    async with services.pool.acquire() as connection:
        try:
            shown = await periodic_progress.rewind(connection, name, wanted.to, services.clock())
        except UnknownProducerError as error:
            raise ProblemError(NOT_FOUND, str(error)) from error
        except WrongCheckpointError as error:
            raise faulty(INVALID_BODY, [Fault(field="to", code="invalid", message=str(error))]) from error
    return reply(shown)
