"""The operator's calls about dead letters and their replays."""

from typing import Annotated
from uuid import UUID

import msgspec
from litestar.response.base import ASGIResponse
from msgspec import Meta

from tocsin.api.auth.roles import Right
from tocsin.api.http.organisations import within_organisation
from tocsin.api.http.problems import (
    IDEMPOTENCY_CONFLICT,
    INVALID_BODY,
    INVALID_QUERY,
    NOT_FOUND,
    ProblemError,
    fault_problem,
    faults_problem,
)
from tocsin.api.http.queries import Page, next_cursor
from tocsin.api.http.replies import reply
from tocsin.api.http.requests import ApiRequest
from tocsin.api.routes import Routes, Tag
from tocsin.domain.intent import Key
from tocsin.engine.inspect import dead_letters
from tocsin.engine.inspect.dead_letters import MOST_GROUPED, ReplayConflictError, replay_of
from tocsin.store.dead_letters import replays
from tocsin.store.dead_letters.reading import FIRST
from tocsin.wire.dead_letters import (
    DeadLetterFilter,
    DeadLetterGroups,
    DeadLetterPage,
    Matches,
    Replay,
    ReplayPage,
    ReplayRequest,
    StartedReplay,
    dead_letter_faults,
)

LARGEST_PAGE = 1_000

routes = Routes(Tag.ADMIN)


class ExportQuery(DeadLetterFilter, frozen=True, kw_only=True):
    """A page of dead letters: those that match among the `limit` that follow the id `after`."""

    after: UUID = FIRST
    limit: Annotated[int, Meta(ge=1, le=LARGEST_PAGE)] = 100


@routes(
    "GET /v1/admin/dead-letters",
    "List dead letters by cause, the largest groups first",
    Right.SEE_ALL,
    within_organisation=True,
)
async def list_dead_letters(request: ApiRequest, query: DeadLetterFilter) -> DeadLetterGroups:
    """Group the newest dead letters by state, error code, provider and type."""
    return await find_groups(request, query)


async def find_groups(
    request: ApiRequest, query: DeadLetterFilter, most: int = MOST_GROUPED
) -> DeadLetterGroups:
    """List the causes of the newest dead letters, at most so many, that the caller may see."""
    _check_query(query)
    async with request.pool.acquire() as connection:
        return await dead_letters.list_groups(connection, within_organisation(request, query), most)


@routes(
    "GET /v1/admin/dead-letters/export",
    "Read dead letters with their payloads",
    Right.SEE_ALL,
    within_organisation=True,
)
async def export_dead_letters(request: ApiRequest, query: ExportQuery) -> DeadLetterPage:
    """Read a page of dead letters, oldest first."""
    return await find_dead_letters(request, query, query.after, query.limit)


async def find_dead_letters(
    request: ApiRequest, query: DeadLetterFilter, after: UUID, limit: int
) -> DeadLetterPage:
    """Read a page of dead letters that the caller may see, oldest first."""
    _check_query(query)
    given = within_organisation(request, query)
    async with request.pool.acquire() as connection:
        return await dead_letters.page(connection, given, after, limit)


@routes(
    "POST /v1/admin/dead-letters/replay",
    "Replay dead letters at a rate; the workers do it",
    Right.RECOVER,
    status=202,
    headers={"Idempotency-Key": "Can be sent instead of the body's `idempotency_key`."},
    problems=(IDEMPOTENCY_CONFLICT,),
    answer=StartedReplay,
    example={"filter": {"state": "dead", "code": "UNAVAILABLE"}, "rate": 100},
    within_organisation=True,
)
async def replay_dead_letters(request: ApiRequest, body: ReplayRequest) -> StartedReplay | ASGIResponse:
    """Start a replay; with `dry_run`, answer 200 with how many deliveries match."""
    wanted = msgspec.structs.replace(body, idempotency_key=_idempotency_key(request, body))
    started = await start_replay(request, wanted)
    return reply(started, 200) if wanted.dry_run else started


async def count_dead_letters(request: ApiRequest, query: DeadLetterFilter, seconds: float) -> Matches:
    """Count the dead letters that match and the caller may see, for so many seconds at most."""
    _check_query(query)
    async with request.pool.acquire() as connection:
        return await dead_letters.count(connection, within_organisation(request, query), seconds)


async def start_replay(request: ApiRequest, body: ReplayRequest) -> StartedReplay:
    """Start a replay of what the caller may see, or count what it would match."""
    if faults := dead_letter_faults(body.filter, "filter."):
        raise faults_problem(INVALID_BODY, *faults)
    wanted = msgspec.structs.replace(body, filter=within_organisation(request, body.filter))
    async with request.pool.acquire() as connection:
        if wanted.dry_run:
            return StartedReplay(None, await dead_letters.count(connection, wanted.filter))
        try:
            started = replay_of(await dead_letters.start_replay(connection, wanted, request.actor))
        except ReplayConflictError as error:
            # Whose replay it is may not be for this caller to see.
            which = (
                f"the other replay {error.replay_id}" if request.holder.org_id is None else "another replay"
            )
            detail = f"This idempotency key was used before, for {which}."
            raise ProblemError(IDEMPOTENCY_CONFLICT, detail) from None
    return StartedReplay(started.replay_id, started.matched)


@routes("GET /v1/admin/replays", "List replays, newest first", Right.SEE_ALL, within_organisation=True)
async def list_replays(request: ApiRequest, query: Page) -> ReplayPage:
    """List replays with their progress."""
    return await find_replays(request, query)


async def find_replays(request: ApiRequest, query: Page) -> ReplayPage:
    """List replays that the caller may see, newest first."""
    rows = await replays.page(request.pool, query.cursor, query.limit, request.holder.org_id)
    return ReplayPage(list(map(replay_of, rows)), next_cursor(rows, query.limit, lambda row: row.id))


@routes(
    "GET /v1/admin/replays/{replay_id}", "Show how far a replay is", Right.SEE_ALL, within_organisation=True
)
async def show_replay(request: ApiRequest, replay_id: UUID) -> Replay:
    """Read one replay."""
    return await find_replay(request, replay_id)


async def find_replay(request: ApiRequest, replay_id: UUID) -> Replay:
    """Read a replay that the caller may see; raise a problem if there is none."""
    row = await replays.get(request.pool, replay_id, request.holder.org_id)
    if row is None:
        raise ProblemError(NOT_FOUND, "There is no such replay.")
    return replay_of(row)


@routes(
    "POST /v1/admin/replays/{replay_id}/stop",
    "Stop a replay; what it has replayed stays replayed",
    Right.RECOVER,
    within_organisation=True,
)
async def stop_replay(request: ApiRequest, replay_id: UUID) -> Replay:
    """Stop a replay that is running."""
    return await end_replay(request, replay_id)


async def end_replay(request: ApiRequest, replay_id: UUID) -> Replay:
    """Stop a running replay that the caller may see; raise a problem if there is none."""
    async with request.pool.acquire() as connection:
        row = await dead_letters.stop_replay(
            connection, replay_id, request.actor, org_id=request.holder.org_id
        )
    if row is None:
        raise ProblemError(NOT_FOUND, "No replay with this id is running.")
    return replay_of(row)


def _check_query(query: DeadLetterFilter) -> None:
    if faults := dead_letter_faults(query):
        raise faults_problem(INVALID_QUERY, *faults)


def _idempotency_key(request: ApiRequest, body: ReplayRequest) -> str | None:
    header = request.headers.get("idempotency-key")
    if header is None:
        return body.idempotency_key
    try:
        key = msgspec.convert(header, Key)
    except msgspec.ValidationError:
        raise fault_problem("Idempotency-Key", "invalid", "must be 1 to 200 printable characters") from None
    if body.idempotency_key not in {None, key}:
        raise fault_problem(
            "idempotency_key", "contradicts_header", "differs from the header Idempotency-Key"
        )
    return key
