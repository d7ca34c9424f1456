"""Scheduled: what leaves when, and cancelling by a query, counted first."""

from typing import Annotated, Any
from uuid import UUID

import msgspec
from msgspec import Meta

from tocsin.api.auth.roles import Right
from tocsin.api.dashboard.page import Page
from tocsin.api.dashboard.responses import View
from tocsin.api.http.conversion import copy_fields
from tocsin.api.http.problems import ProblemError
from tocsin.api.http.requests import ApiRequest
from tocsin.api.operator.cancelling import cancel_matching
from tocsin.api.operator.queue import Ahead, find_schedule
from tocsin.wire.cancelling import CancelFilter, CancelRequest

MOST_ZONES = 5
COUNT_SECONDS = 0.1
"""How long a page counts; where there may be more, it offers to count further."""
COUNTED_ALONE = 10_000
"""Up to here the browser counts on by itself, one short call after the other."""
SPANS = ((24, "24 hours"), (72, "3 days"), (168, "7 days"), (336, "14 days"))

Count = Annotated[int, Meta(ge=0, le=10**12)]

page = Page("scheduled", "Scheduled", Right.SEE_ALL)


class CancelForm(CancelFilter, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to count or cancel, and where to go on."""

    cursor: UUID | None = None
    matched: Count = 0
    cancelled: Count = 0


@page.get()
async def show_schedule(request: ApiRequest, query: Ahead) -> View:
    """Show what leaves in each of the next hours, by type and time zone."""
    schedule = await find_schedule(request, query)
    return View(
        "scheduled/index.html",
        {
            "schedule": schedule,
            "most": max((hour.count.count for hour in schedule.hours), default=0),
            "hours": query.hours,
            "most_zones": MOST_ZONES,
            "spans": SPANS,
            "may_cancel": request.holder.may(Right.RECOVER),
        },
    )


@page.get("/cancel", Right.RECOVER)
async def count(request: ApiRequest, query: CancelForm) -> View:
    """Show the form, and count what would be cancelled if a filter was given."""
    wanted = copy_fields(CancelFilter, query)
    if wanted == CancelFilter():
        return _view(query, None)
    return await _run(request, query, dry_run=True)


@page.post("/cancel", Right.RECOVER)
async def cancel(request: ApiRequest, form: CancelForm) -> View:
    """Cancel what waits and matches, for some seconds; the page goes on where that ended."""
    return await _run(request, form, dry_run=False)


async def _run(request: ApiRequest, form: CancelForm, *, dry_run: bool) -> View:
    wanted = CancelRequest(filter=copy_fields(CancelFilter, form), dry_run=dry_run, cursor=form.cursor)
    try:
        found = await cancel_matching(request, wanted, COUNT_SECONDS if dry_run else None)
    except ProblemError as error:
        return _view(form, error)
    result: dict[str, Any] = {
        "dry_run": dry_run,
        "matched": form.matched + found.matched,
        "cancelled": form.cancelled + found.cancelled,
        "in_flight": found.in_flight,
        "next": found.next_cursor,
    }
    return _view(form, None, result)


def _view(form: CancelForm, error: ProblemError | None, result: dict[str, Any] | None = None) -> View:
    given: dict[str, Any] = msgspec.to_builtins(copy_fields(CancelFilter, form))
    context = {
        "query": form,
        "given": given,
        "counted_alone": COUNTED_ALONE,
        "result": result,
        "fault": error.problem.detail if error else None,
    }
    return View("scheduled/cancel.html", context, status=error.problem.status if error else 200)
