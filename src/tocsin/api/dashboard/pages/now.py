"""What happens now: counts and latency over time, lanes, providers and alarms."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

import msgspec

from tocsin.api.auth.roles import Right
from tocsin.api.dashboard.live.stream import EventStreamResponse, open_stream
from tocsin.api.dashboard.page import Page
from tocsin.api.dashboard.responses import View
from tocsin.api.http.requests import ApiRequest
from tocsin.api.services import Services
from tocsin.domain.ids import LAST
from tocsin.engine.health.provider_health import providers_health
from tocsin.engine.inspect.activity import CountHistory, SpanName
from tocsin.engine.inspect.queue import read_queue
from tocsin.store.health.latency import Measure
from tocsin.store.health.provider_health import list_alarms

MOST_ALARMS = 20
SPANS: dict[SpanName, str] = {"1h": "1 hour", "6h": "6 hours", "24h": "24 hours", "7d": "7 days"}
MEASURES: dict[Measure, str] = {"accepted": "since accepted", "due": "since due"}

page = Page("now", "Now", Right.SEE_ALL)


class NowQuery(msgspec.Struct, frozen=True, kw_only=True):
    """The span of time to plot, and what the latency is counted from."""

    span: SpanName = "1h"
    measure: Measure = "accepted"


@page.get()
async def show_now(request: ApiRequest, query: NowQuery) -> View:
    """Show the page."""
    return View("now/index.html", await _state(request.services, _history(request), query))


@page.get("/live")
async def show_live(request: ApiRequest, query: NowQuery) -> View:
    """Show the part of the page that is refreshed."""
    return await _live(request.services, _history(request), query)


@page.get("/stream")
async def stream(request: ApiRequest, query: NowQuery) -> EventStreamResponse:
    """Stream the part of the page that is refreshed."""
    services, history = request.services, _history(request)
    return open_stream(request, (page.path, query), lambda: _live(services, history, query))


def _history(request: ApiRequest) -> CountHistory:
    history: CountHistory = request.app.state.dashboard_counts
    return history


async def _live(services: Services, history: CountHistory, query: NowQuery) -> View:
    return View("now/live.html", {**await _state(services, history, query), "is_refresh": True})


async def _state(services: Services, history: CountHistory, query: NowQuery) -> dict[str, Any]:
    in_use, now = services.providers, services.clock()
    async with services.pool.acquire() as connection:
        series = await history.activity_series(connection, query.span, now)
        latency = await history.latency_series(connection, query.span, query.measure, now)
        return {
            "spans": SPANS,
            "measures": MEASURES,
            "series": series,
            # The last span has only begun, and its counts would look like a fall.
            "plot": _columns(series.times[:-1], (counts[:-1] for counts in series.counts.values())),
            "latency": latency,
            "latency_plot": _columns(latency.times, latency.quantiles.values()),
            "queue": await read_queue(connection, in_use, now),
            "providers": await providers_health(connection, in_use, now),
            "alarms": await list_alarms(connection, cleared=False, before=LAST, limit=MOST_ALARMS),
            "is_refresh": False,
        }


def _columns(times: Sequence[datetime], values: Iterable[Sequence[float | None]]) -> str:
    """Return the columns of a plot as JSON: seconds since the epoch, then the values of each line."""
    seconds = [int(begins.timestamp()) for begins in times]
    return msgspec.json.encode([seconds, *values]).decode()
