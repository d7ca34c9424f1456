"""The operator's calls about providers: how they do, pausing them, and trying them at once."""

from typing import Any, ClassVar

import msgspec
from litestar import Request, get, post
from litestar.response.base import ASGIResponse

from tocsin.api.auth.access import holder_of
from tocsin.api.auth.roles import Right
from tocsin.api.http.bodies import Checked, decode
from tocsin.api.http.checks import not_blank
from tocsin.api.http.problems import (
    BODY_TOO_LARGE,
    INVALID_BODY,
    MALFORMED_JSON,
    UNKNOWN_PROVIDER,
    ProblemError,
)
from tocsin.api.http.queries import read_path
from tocsin.api.http.replies import reply
from tocsin.api.operations import KeyMay, Operation, Tag, declared
from tocsin.api.services import services_of
from tocsin.domain.toggles import Note, toggle_of
from tocsin.engine.health.provider_health import ProviderHealth, ProviderInUse, not_in_use, providers_health
from tocsin.store import toggles
from tocsin.store.health.circuit_breakers import end_rests


class PauseProvider(Checked, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Why a provider is paused or resumed; the body may be left out."""

    checks: ClassVar = {"reason": not_blank}

    reason: Note | None = None


class ProviderList(msgspec.Struct, frozen=True):
    """The providers in use."""

    providers: list[ProviderHealth]


@get(
    "/v1/admin/providers",
    opt=declared(
        Operation(
            tag=Tag.ADMIN,
            summary="Show how the providers in use do",
            access=KeyMay(Right.SEE_TOGGLES),
            answers={200: ProviderList},
        )
    ),
)
async def list_providers(request: Request[Any, Any, Any]) -> ASGIResponse:
    """Show state, rate, outcomes, what waits and alarms of each."""
    services = services_of(request)
    async with services.pool.acquire() as connection:
        shown = await providers_health(connection, services.providers, services.clock())
    return reply(ProviderList(shown))


@post(
    "/v1/admin/providers/{name:str}/pause",
    status_code=200,
    opt=declared(
        Operation(
            tag=Tag.ADMIN,
            summary="Pause a provider; what is for it waits",
            access=KeyMay(Right.CHANGE_TOGGLES),
            body=PauseProvider,
            answers={200: ProviderHealth},
            problems=(UNKNOWN_PROVIDER, MALFORMED_JSON, BODY_TOO_LARGE, INVALID_BODY),
            example={"reason": "outage at the provider"},
        )
    ),
)
async def pause_provider(request: Request[Any, Any, Any]) -> ASGIResponse:
    """Switch a provider's toggle off."""
    return await _switched(request, enabled=False)


@post(
    "/v1/admin/providers/{name:str}/resume",
    status_code=200,
    opt=declared(
        Operation(
            tag=Tag.ADMIN,
            summary="Resume a paused provider; what waited goes on",
            access=KeyMay(Right.CHANGE_TOGGLES),
            body=PauseProvider,
            answers={200: ProviderHealth},
            problems=(UNKNOWN_PROVIDER, MALFORMED_JSON, BODY_TOO_LARGE, INVALID_BODY),
            example={"reason": "the provider is back"},
        )
    ),
)
async def resume_provider(request: Request[Any, Any, Any]) -> ASGIResponse:
    """Switch a provider's toggle on."""
    return await _switched(request, enabled=True)


@post(
    "/v1/admin/providers/{name:str}/try",
    status_code=200,
    opt=declared(
        Operation(
            tag=Tag.ADMIN,
            summary="Let a provider that is left alone be tried now; what is mended need not wait",
            access=KeyMay(Right.CHANGE_TOGGLES),
            answers={200: ProviderHealth},
            problems=(UNKNOWN_PROVIDER,),
        )
    ),
)
async def try_provider(request: Request[Any, Any, Any]) -> ASGIResponse:
    """End the rest of every open circuit of a provider."""
    services, asked_for = services_of(request), _asked_for(request)
    async with services.pool.acquire() as connection:
        await end_rests(connection, asked_for.name, services.clock())
        (shown,) = await providers_health(connection, [asked_for], services.clock())
    return reply(shown)


def _asked_for(request: Request[Any, Any, Any]) -> ProviderInUse:
    in_use, name = services_of(request).providers, read_path(request, "name")
    if unknown := not_in_use(name, in_use):
        raise ProblemError(UNKNOWN_PROVIDER, unknown)
    return next(provider for provider in in_use if provider.name == name)


async def _switched(request: Request[Any, Any, Any], *, enabled: bool) -> ASGIResponse:
    services, holder, asked_for = services_of(request), holder_of(request), _asked_for(request)
    wanted = decode(await request.body() or b"{}", PauseProvider)
    async with services.pool.acquire() as connection:
        await toggles.change(
            connection,
            toggle_of(asked_for.name),
            enabled=enabled,
            reason=wanted.reason,
            by=f"{holder.producer} (key {holder.key_id})",
            now=services.clock(),
        )
        (shown,) = await providers_health(connection, [asked_for], services.clock())
    return reply(shown)
