"""Providers: their health, circuit breakers and rates; pausing, resuming and trying one."""

from tocsin.api.auth.roles import Right
from tocsin.api.dashboard.live.stream import EventStreamResponse, open_stream
from tocsin.api.dashboard.page import Page
from tocsin.api.dashboard.responses import Redirect, View
from tocsin.api.http.requests import ApiRequest
from tocsin.api.operator.providers import (
    PauseProvider,
    find_provider,
    find_providers,
    probe_provider,
    switch_provider,
)
from tocsin.api.services import Services

page = Page("providers", "Providers", Right.SEE_TOGGLES)


@page.get()
async def list_providers(request: ApiRequest) -> View:
    """Show every provider in use."""
    return View("providers/index.html", {"providers": await find_providers(request.services)})


@page.get("/live")
async def show_live(request: ApiRequest) -> View:
    """Show the part of the list that is refreshed."""
    return await _live(request.services)


@page.get("/stream")
async def stream(request: ApiRequest) -> EventStreamResponse:
    """Stream the part of the list that is refreshed."""
    services = request.services
    return open_stream(request, page.path, lambda: _live(services))


@page.get("/{name}")
async def show_provider(request: ApiRequest, name: str) -> View:
    """Show one provider with its circuit breakers, outcomes and alarms."""
    return View(
        "providers/show.html",
        {
            "provider": await find_provider(request, name),
            "may_change": request.holder.may(Right.CHANGE_TOGGLES),
        },
    )


@page.post("/{name}/pause", Right.CHANGE_TOGGLES)
async def pause(request: ApiRequest, name: str, form: PauseProvider) -> Redirect:
    """Pause a provider; its deliveries wait."""
    await switch_provider(request, name, form.reason, enabled=False)
    return Redirect(f"{page.path}/{name}", notice=f"{name} is paused; its deliveries wait.")


@page.post("/{name}/resume", Right.CHANGE_TOGGLES)
async def resume(request: ApiRequest, name: str, form: PauseProvider) -> Redirect:
    """Resume a paused provider."""
    await switch_provider(request, name, form.reason, enabled=True)
    return Redirect(f"{page.path}/{name}", notice=f"{name} is resumed; its deliveries continue.")


@page.post("/{name}/try", Right.CHANGE_TOGGLES)
async def try_now(request: ApiRequest, name: str) -> Redirect:
    """End the rest of every open circuit breaker of a provider."""
    await probe_provider(request, name)
    return Redirect(f"{page.path}/{name}", notice=f"{name} is tried with its next delivery.")


async def _live(services: Services) -> View:
    return View("providers/live.html", {"providers": await find_providers(services)})
