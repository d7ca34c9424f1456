"""What happens now: lanes, providers and alarms."""

from tocsin.api.auth.roles import Right
from tocsin.api.dashboard.page import Page
from tocsin.api.dashboard.responses import View
from tocsin.api.http.requests import ApiRequest
from tocsin.engine.health.provider_health import providers_health
from tocsin.engine.inspect.queue import read_queue
from tocsin.store.audit import NEWEST
from tocsin.store.health.provider_health import list_alarms

MOST_ALARMS = 20

page = Page("now", "Now", Right.SEE_ALL)


@page.get()
async def show_now(request: ApiRequest) -> View:
    """Show lanes, providers and alarms."""
    return View("now/index.html", await _state(request))


@page.get("/live")
async def show_live(request: ApiRequest) -> View:
    """Show the part of the page that is refreshed."""
    return View("now/live.html", await _state(request))


async def _state(request: ApiRequest) -> dict[str, object]:
    in_use, now = request.services.providers, request.now()
    async with request.pool.acquire() as connection:
        return {
            "queue": await read_queue(connection, in_use, now),
            "providers": await providers_health(connection, in_use, now),
            "alarms": await list_alarms(connection, cleared=False, before=NEWEST, limit=MOST_ALARMS),
        }
