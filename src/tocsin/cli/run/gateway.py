"""The process of `tocsin gateway`."""

import asyncio
from typing import TYPE_CHECKING

import structlog

from tocsin.cli.run.metrics import exported_metrics
from tocsin.cli.run.probes import probes_of
from tocsin.cli.run.process import prepared_settings, run_until_stopped
from tocsin.compose.duties import duties_running, tune_gc
from tocsin.compose.relays import redis_missing
from tocsin.domain.errors import SettingsError
from tocsin.domain.faults import Fault
from tocsin.settings.build import setting_name
from tocsin.settings.tree import Settings

if TYPE_CHECKING:
    from tocsin.gateway.process import Gateway

_log = structlog.stdlib.get_logger(__name__)


def gateway(*, tied: bool) -> None:
    """Send client events from a Redis stream to apps and browsers, live."""
    settings = prepared_settings()
    run_until_stopped(lambda stop: _run_gateway(settings, stop, tied=tied), tied=tied)


async def _run_gateway(settings: Settings, stop: asyncio.Event, *, tied: bool) -> None:
    opened = open_gateway(settings)
    async with (
        probes_of(settings.probes, opened.fault),
        exported_metrics(settings, None, tied=tied),
        duties_running(opened.reader),
    ):
        tune_gc()
        stream = settings.gateway.stream
        await opened.run(stop, lambda at: _log.info("gateway started", address=at, stream=stream))


def open_gateway(settings: Settings) -> "Gateway":
    """Build the gateway, which needs Redis and a way to verify tokens, but no database."""
    faults = []
    if not (settings.gateway.url or settings.redis.url):
        field = setting_name(("redis", "url"))
        faults.append(Fault(field=field, code="missing", message="must be set: redis://…"))
    if settings.auth.jwt_secret is None and settings.auth.jwks_url is None:
        message = f"or {setting_name(('auth', 'jwks_url'))} must be set"
        faults.append(Fault(field=setting_name(("auth", "jwt_secret")), code="missing", message=message))
    if faults:
        raise SettingsError("The gateway cannot start:", faults)
    try:
        from tocsin.gateway.process import Gateway
    except ModuleNotFoundError as error:
        raise redis_missing("gateway") from error
    return Gateway(settings.gateway, settings.redis, settings.auth)
