"""What happens now: counts over time, lanes, providers and alarms."""

from typing import Any

import msgspec

from tocsin.api.auth.roles import Right
from tocsin.api.dashboard.page import Page
from tocsin.api.dashboard.responses import View
from tocsin.api.http.requests import ApiRequest
from tocsin.domain.ids import LAST
from tocsin.engine.health.provider_health import providers_health
from tocsin.engine.inspect.activity import ActivitySeries, SpanName, activity_series
from tocsin.engine.inspect.queue import read_queue
from tocsin.store.health.provider_health import list_alarms

MOST_ALARMS = 20
SPANS: dict[SpanName, str] = {"1h": "1 hour", "6h": "6 hours", "24h": "24 hours", "7d": "7 days"}

page = Page("now", "Now", Right.SEE_ALL)


class NowQuery(msgspec.Struct, frozen=True, kw_only=True):
    """The span of time to plot."""

    span: SpanName = "1h"


@page.get()
async def show_now(request: ApiRequest, query: NowQuery) -> View:
    """Show the page."""
    return View("now/index.html", await _state(request, query))


@page.get("/live")
async def show_live(request: ApiRequest, query: NowQuery) -> View:
    """Show the part of the page that is refreshed."""
    return View("now/live.html", await _state(request, query))


async def _state(request: ApiRequest, query: NowQuery) -> dict[str, Any]:
    in_use, now = request.services.providers, request.now()
    async with request.pool.acquire() as connection:
        series = await activity_series(connection, query.span, now)
        return {
            "spans": SPANS,
            "series": series,
            "plot": _plot(series),
            "queue": await read_queue(connection, in_use, now),
            "providers": await providers_health(connection, in_use, now),
            "alarms": await list_alarms(connection, cleared=False, before=LAST, limit=MOST_ALARMS),
        }


def _plot(series: ActivitySeries) -> str:
    """Return the columns of the plot as JSON: seconds since the epoch, then the counts of each event.

    The last span has only begun, and would look like a fall.
    """
    times = [int(begins.timestamp()) for begins in series.times]
    return msgspec.json.encode([column[:-1] for column in (times, *series.counts.values())]).decode()
