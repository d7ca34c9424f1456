"""The operator's calls about periodic producers, and about what intents are read from."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from tocsin.api.auth.roles import Right
from tocsin.api.bodies import ProgressList, SourceList
from tocsin.api.http.problems import NOT_FOUND, ProblemError, fault_problem
from tocsin.api.http.requests import ApiRequest
from tocsin.api.routes import Routes, Tag
from tocsin.engine.inspect.sources import SourceRecord, list_sources
from tocsin.engine.periodic import progress as periodic_progress
from tocsin.engine.periodic.progress import ProgressRecord, UnknownProducerError, WrongCheckpointError

routes = Routes(Tag.ADMIN)


class Rewind(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The checkpoint to continue from."""

    to: Any


@routes("GET /v1/admin/progress", "Show how far the periodic producers are", Right.SEE_TOGGLES)
async def list_progress(request: ApiRequest) -> ProgressList:
    """List state, checkpoint, times and counts of each."""
    return ProgressList(await find_progress(request))


async def find_progress(request: ApiRequest) -> list[ProgressRecord]:
    """List the periodic producers, by name."""
    return await periodic_progress.list_records(request.pool, request.now())


@routes(
    "GET /v1/admin/sources",
    "Show how far behind the readers of outboxes, streams and queues are",
    Right.SEE_TOGGLES,
)
async def show_sources(request: ApiRequest) -> SourceList:
    """List what waits in each, how old the oldest is, the checkpoint, and the last error."""
    return SourceList(await find_sources(request))


async def find_sources(request: ApiRequest) -> list[SourceRecord]:
    """List the outboxes, streams and queues that were ever read."""
    async with request.pool.acquire() as connection:
        return await list_sources(connection, request.now())


@routes(
    "POST /v1/admin/progress/{name}/run",
    "Ask for a run of a periodic producer now",
    Right.CHANGE_TOGGLES,
    status=202,
    problems=(NOT_FOUND,),
)
async def run_producer(request: ApiRequest, name: str) -> ProgressRecord:
    """Request a run by a worker; the schedule does not change."""
    return await start_run(request, name)


async def start_run(request: ApiRequest, name: str) -> ProgressRecord:
    """Request a run; raise a problem if there is no such producer."""
    try:
        return await periodic_progress.request_run(request.pool, name, request.now())
    except UnknownProducerError as error:
        raise ProblemError(NOT_FOUND, str(error)) from error


@routes(
    "POST /v1/admin/progress/{name}/rewind",
    "Set the checkpoint of a periodic producer; what was accepted stays accepted once",
    Right.CHANGE_TOGGLES,
    problems=(NOT_FOUND,),
    example={"to": "2026-01-31T08:00:00Z"},
)
async def rewind_producer(request: ApiRequest, name: str, body: Rewind) -> ProgressRecord:
    """Set the checkpoint from which the next run continues."""
    with _rewind_problems():
        async with request.pool.acquire() as connection:
            return await periodic_progress.rewind(
                connection, name, body.to, request.now(), actor=request.actor
            )


async def rewind_to(request: ApiRequest, name: str, text: str) -> ProgressRecord:
    """Set a checkpoint that was typed by hand; raise a problem if it is none of the producer."""
    with _rewind_problems():
        async with request.pool.acquire() as connection:
            return await periodic_progress.rewind_to_text(
                connection, name, text, request.now(), actor=request.actor
            )


@contextmanager
def _rewind_problems() -> Iterator[None]:
    """Raise the problems of setting a checkpoint."""
    try:
        yield
    except UnknownProducerError as error:
        raise ProblemError(NOT_FOUND, str(error)) from error
    except WrongCheckpointError as error:
        raise fault_problem("to", "invalid", str(error)) from error
