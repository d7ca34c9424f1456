"""The operator's calls about providers: their health, pausing them, and retrying them at once."""

from typing import ClassVar

from tocsin.api.auth.roles import Right
from tocsin.api.bodies import ProviderList
from tocsin.api.http.problems import UNKNOWN_PROVIDER, ProblemError
from tocsin.api.http.requests import ApiRequest
from tocsin.api.routes import Routes, Tag
from tocsin.api.services import Services
from tocsin.domain.toggles import Note, toggle_of
from tocsin.engine.health.provider_health import ProviderHealth, ProviderInUse, not_in_use, providers_health
from tocsin.store import toggles
from tocsin.store.health.circuit_breakers import end_rests
from tocsin.store.pool import Connection
from tocsin.wire.checks import Checked, not_blank

routes = Routes(Tag.ADMIN)


class PauseProvider(Checked, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The reason for pausing or resuming a provider; the body may be left out."""

    checks: ClassVar = {"reason": not_blank}

    reason: Note | None = None


_NO_REASON = PauseProvider()


@routes("GET /v1/admin/providers", "Show the health of the providers in use", Right.SEE_TOGGLES)
async def list_providers(request: ApiRequest) -> ProviderList:
    """List state, rate, outcomes, waiting deliveries and alarms of each."""
    return ProviderList(await find_providers(request.services))


async def find_providers(services: Services) -> list[ProviderHealth]:
    """Read the health of every provider in use."""
    async with services.pool.acquire() as connection:
        return await providers_health(connection, services.providers, services.clock())


async def find_provider(request: ApiRequest, name: str) -> ProviderHealth:
    """Read the health of one provider; raise a problem if it is not in use."""
    provider = _in_use(request, name)
    async with request.pool.acquire() as connection:
        return await _health(request, connection, provider)


@routes(
    "POST /v1/admin/providers/{name}/pause",
    "Pause a provider; its deliveries wait",
    Right.CHANGE_TOGGLES,
    problems=(UNKNOWN_PROVIDER,),
    example={"reason": "outage at the provider"},
)
async def pause_provider(request: ApiRequest, name: str, body: PauseProvider = _NO_REASON) -> ProviderHealth:
    """Switch a provider's toggle off."""
    return await switch_provider(request, name, body.reason, enabled=False)


@routes(
    "POST /v1/admin/providers/{name}/resume",
    "Resume a paused provider; its waiting deliveries continue",
    Right.CHANGE_TOGGLES,
    problems=(UNKNOWN_PROVIDER,),
    example={"reason": "the provider is back"},
)
async def resume_provider(request: ApiRequest, name: str, body: PauseProvider = _NO_REASON) -> ProviderHealth:
    """Switch a provider's toggle on."""
    return await switch_provider(request, name, body.reason, enabled=True)


@routes(
    "POST /v1/admin/providers/{name}/try",
    "Try a provider whose circuit breakers are open now, without waiting",
    Right.CHANGE_TOGGLES,
    problems=(UNKNOWN_PROVIDER,),
)
async def try_provider(request: ApiRequest, name: str) -> ProviderHealth:
    """End the waiting time of every open circuit breaker of a provider."""
    return await probe_provider(request, name)


async def probe_provider(request: ApiRequest, name: str) -> ProviderHealth:
    """End the rests of a provider's open circuit breakers; raise a problem if it is not in use."""
    provider = _in_use(request, name)
    async with request.pool.acquire() as connection:
        await end_rests(connection, name, request.now())
        return await _health(request, connection, provider)


async def switch_provider(
    request: ApiRequest, name: str, reason: str | None, *, enabled: bool
) -> ProviderHealth:
    """Pause or resume a provider; raise a problem if it is not in use."""
    provider = _in_use(request, name)
    async with request.pool.acquire() as connection:
        await toggles.change(
            connection,
            toggle_of(name),
            enabled=enabled,
            reason=reason,
            by=request.actor,
            now=request.now(),
        )
        return await _health(request, connection, provider)


async def _health(request: ApiRequest, connection: Connection, provider: ProviderInUse) -> ProviderHealth:
    (health,) = await providers_health(connection, [provider], request.now())
    return health


def _in_use(request: ApiRequest, name: str) -> ProviderInUse:
    providers = request.services.providers
    if unknown := not_in_use(name, providers):
        raise ProblemError(UNKNOWN_PROVIDER, unknown)
    return next(provider for provider in providers if provider.name == name)
