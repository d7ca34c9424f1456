"""Producers: outboxes, streams, queues and periodic runs with their lag, and intents that were refused."""

from typing import Annotated

import msgspec
from msgspec import Meta

from tocsin.api.auth.roles import Right
from tocsin.api.bodies import Refused
from tocsin.api.dashboard.page import Page
from tocsin.api.dashboard.paging import next_page
from tocsin.api.dashboard.responses import Redirect, View
from tocsin.api.http import queries
from tocsin.api.http.requests import ApiRequest
from tocsin.api.operator.admin import find_refused
from tocsin.api.operator.alarms import AlarmsQuery, find_alarms
from tocsin.api.operator.progress import find_progress, find_sources, rewind_to, start_run

SOURCES = ("outbox:", "stream:", "sqs:")
"""How the alarms of what intents are read from begin."""
MOST_ALARMS = 1_000
LARGEST_CHECKPOINT = 10_000

page = Page("producers", "Producers", Right.SEE_TOGGLES)


class RewindForm(msgspec.Struct, frozen=True, kw_only=True):
    """The checkpoint that the next run continues from."""

    to: Annotated[str, Meta(max_length=LARGEST_CHECKPOINT)]


@page.get()
async def list_producers(request: ApiRequest) -> View:
    """Show how far behind outboxes, streams, queues and periodic producers are, and the alarms of sources."""
    found = await find_alarms(request, AlarmsQuery(limit=MOST_ALARMS))
    return View(
        "producers/index.html",
        {
            "producers": await find_progress(request),
            "sources": await find_sources(request),
            "alarms": [alarm for alarm in found.alarms if alarm.provider.startswith(SOURCES)],
            "may_change": request.holder.may(Right.CHANGE_TOGGLES),
            "may_see_refused": request.holder.may(Right.SEE_REFUSED),
        },
    )


@page.get("/refused", Right.SEE_REFUSED)
async def list_refused(request: ApiRequest, query: queries.Page) -> View:
    """Show refused intents with their faults, newest first."""
    found = await find_refused(request, query)
    return View(
        "producers/refused.html",
        {
            "refused": [(each, _faults(each)) for each in found.refused],
            "next": next_page(query, found.next),
        },
    )


@page.post("/periodic/{name}/run", Right.CHANGE_TOGGLES)
async def run(request: ApiRequest, name: str) -> Redirect:
    """Ask for a run now."""
    started = await start_run(request, name)
    return Redirect(page.path, notice=f"A worker runs {started.name} within a second or two.")


@page.post("/periodic/{name}/rewind", Right.CHANGE_TOGGLES)
async def rewind(request: ApiRequest, name: str, form: RewindForm) -> Redirect:
    """Set a checkpoint; what was accepted stays accepted once."""
    rewound = await rewind_to(request, name, form.to)
    return Redirect(page.path, notice=f"{rewound.name} continues from its new checkpoint.")


def _faults(refused: Refused) -> object:
    """Return the faults of an intent, which were stored as JSON."""
    return msgspec.json.decode(refused.faults)
