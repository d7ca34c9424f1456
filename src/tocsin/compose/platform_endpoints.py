"""Builds what registers and deletes the endpoints of Amazon SNS."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tocsin.domain.errors import ProviderSetupError
from tocsin.engine.clock import Clock
from tocsin.engine.platform_endpoints import PlatformEndpoints
from tocsin.providers.sns.settings import SnsSettings
from tocsin.settings.tree import Settings
from tocsin.store.pool import Pool
from tocsin.store.secrets.sealing import DataKeys


@asynccontextmanager
async def open_platform_endpoints(
    settings: Settings, pool: Pool, clock: Clock, keys: DataKeys
) -> AsyncIterator[PlatformEndpoints | None]:
    """Open the endpoints of SNS; None if SNS is not in use."""
    section = settings.provider(SnsSettings)
    if not section.is_configured:
        yield None
        return
    try:
        # Its packages are an extra, and slow to import.
        from tocsin.providers.sns.endpoints import SnsEndpoints  # noqa: PLC0415
    except ModuleNotFoundError as error:
        message = "The provider sns needs more packages: pip install 'tocsin[aws]'"
        raise ProviderSetupError(message) from error
    endpoints = SnsEndpoints(section, settings.aws)
    try:
        await endpoints.prepare()
        yield PlatformEndpoints(pool, endpoints, clock, keys)
    finally:
        await endpoints.aclose()
