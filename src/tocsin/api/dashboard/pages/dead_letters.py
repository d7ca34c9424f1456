"""Dead letters by cause: looking into them, replaying them and exporting them."""

from collections.abc import AsyncIterator
from typing import Annotated, Any
from uuid import UUID

import msgspec
from litestar.response.base import ASGIResponse
from litestar.response.streaming import ASGIStreamingResponse
from msgspec import Meta

from tocsin.api.auth.roles import Right
from tocsin.api.dashboard.page import Page
from tocsin.api.dashboard.pages.notifications import filter_query
from tocsin.api.dashboard.responses import HEADERS, Redirect, View
from tocsin.api.http.queries import Page as PageQuery
from tocsin.api.http.requests import ApiRequest
from tocsin.api.operator.dead_letters import (
    count_dead_letters,
    end_replay,
    find_dead_letters,
    find_groups,
    find_replay,
    find_replays,
    start_replay,
)
from tocsin.store.dead_letters.reading import FIRST
from tocsin.wire.dead_letters import (
    DEFAULT_RATE,
    LARGEST_RATE,
    DeadLetterFilter,
    DeliveryIds,
    ReplayRequest,
)

PAGE_SIZE = 50
EXPORT_SIZE = 500
COUNT_SECONDS = 0.1
MOST_GROUPED = 10_000
NEWEST_REPLAYS = 5

page = Page("dead-letters", "Dead letters", Right.SEE_ALL, within_organisation=True)


class CauseQuery(DeadLetterFilter, frozen=True, kw_only=True):
    """The dead letters of a cause that follow an id."""

    after: UUID = FIRST


class ReplayForm(DeadLetterFilter, frozen=True, kw_only=True):
    """What to replay, and how fast."""

    rate: Annotated[int, Meta(ge=1, le=LARGEST_RATE)] = DEFAULT_RATE
    force: bool = False


class ChosenForm(msgspec.Struct, frozen=True, kw_only=True):
    """Dead letters that were chosen one by one; at least one must be, as an empty filter is all of them."""

    delivery_ids: DeliveryIds
    rate: Annotated[int, Meta(ge=1, le=LARGEST_RATE)] = DEFAULT_RATE
    force: bool = False


@page.get()
async def list_causes(request: ApiRequest, query: DeadLetterFilter) -> View:
    """Show dead letters by cause, and the newest replays."""
    groups = await find_groups(request, query, MOST_GROUPED)
    causes = [(group, filter_query(_of_group(group))) for group in groups.groups]
    context = {
        "causes": causes,
        "truncated": MOST_GROUPED if groups.truncated else None,
        **await _replays(request),
    }
    return View("dead_letters/index.html", context)


@page.get("/cause")
async def show_cause(request: ApiRequest, query: CauseQuery) -> View:
    """Show the dead letters of a cause, and the form that replays them."""
    given = _plain(query)
    found = await find_dead_letters(request, given, query.after, PAGE_SIZE)
    matched = await count_dead_letters(request, given, COUNT_SECONDS)
    return View(
        "dead_letters/cause.html",
        {
            "query": query,
            "fields": _fields(given),
            "address": filter_query(given),
            "letters": found.dead_letters,
            "next": None if found.next is None else filter_query(given, after=str(found.next)),
            "matched": matched,
            "rate": DEFAULT_RATE,
            "largest_rate": LARGEST_RATE,
            "may_replay": request.holder.may(Right.RECOVER),
        },
    )


@page.post("/replay", Right.RECOVER)
async def replay(request: ApiRequest, form: ReplayForm) -> Redirect:
    """Start a replay of what a filter matches."""
    return await _start(request, ReplayRequest(filter=_plain(form), rate=form.rate, force=form.force))


@page.post("/replay-chosen", Right.RECOVER)
async def replay_chosen(request: ApiRequest, form: ChosenForm) -> Redirect:
    """Start a replay of those that were chosen."""
    given = DeadLetterFilter(delivery_ids=form.delivery_ids)
    return await _start(request, ReplayRequest(filter=given, rate=form.rate, force=form.force))


async def _start(request: ApiRequest, wanted: ReplayRequest) -> Redirect:
    started = await start_replay(request, wanted)
    count = f"{started.matched.count:,}{'+' if started.matched.or_more else ''}"
    noun = "delivery" if count == "1" else "deliveries"
    return Redirect(f"{page.path}/replays/{started.replay_id}", notice=f"Replay of {count} {noun} started.")


@page.get("/replays/{replay_id}")
async def show_replay(request: ApiRequest, replay_id: UUID) -> View:
    """Show how far a replay is."""
    return View("dead_letters/replay.html", await _replay(request, replay_id))


@page.get("/replays/{replay_id}/progress")
async def show_progress(request: ApiRequest, replay_id: UUID) -> View:
    """Show the part of a replay that is refreshed."""
    return View("dead_letters/progress.html", await _replay(request, replay_id))


@page.post("/replays/{replay_id}/stop", Right.RECOVER)
async def stop(request: ApiRequest, replay_id: UUID) -> Redirect:
    """Stop a replay."""
    await end_replay(request, replay_id)
    return Redirect(f"{page.path}/replays/{replay_id}", notice="The replay was stopped.")


@page.get("/export")
async def export(request: ApiRequest, query: DeadLetterFilter) -> ASGIResponse:
    """Return the dead letters that match as lines of JSON."""
    first = await find_dead_letters(request, query, FIRST, EXPORT_SIZE)

    async def lines() -> AsyncIterator[bytes]:
        found = first
        while True:
            yield b"".join(msgspec.json.encode(letter) + b"\n" for letter in found.dead_letters)
            if found.next is None:
                return
            found = await find_dead_letters(request, query, found.next, EXPORT_SIZE)

    attachment = {"content-disposition": 'attachment; filename="dead-letters.jsonl"'}
    return ASGIStreamingResponse(
        iterator=lines(), media_type="application/x-ndjson", headers={**HEADERS, **attachment}
    )


async def _replays(request: ApiRequest) -> dict[str, Any]:
    newest = await find_replays(request, PageQuery(limit=NEWEST_REPLAYS))
    return {"replays": newest.replays}


async def _replay(request: ApiRequest, replay_id: UUID) -> dict[str, Any]:
    found = await find_replay(request, replay_id)
    done = found.replayed + sum(found.left_out.values())
    return {
        "replay": found,
        "done": done,
        "most": max(found.matched.count, done, 1),
        "may_stop": request.holder.may(Right.RECOVER),
    }


def _of_group(group: Any) -> DeadLetterFilter:
    return DeadLetterFilter(state=group.state, code=group.code, provider=group.provider, type=group.type)


def _plain(given: DeadLetterFilter) -> DeadLetterFilter:
    """Return the filter alone, without the other fields of a form."""
    return DeadLetterFilter(**{name: getattr(given, name) for name in DeadLetterFilter.__struct_fields__})


def _fields(given: DeadLetterFilter) -> list[tuple[str, str]]:
    """Return the fields of a filter that are set, as a form sends them."""
    return [
        (name, str(each))
        for name, value in msgspec.to_builtins(given).items()
        for each in (value if isinstance(value, list) else [value])
    ]
