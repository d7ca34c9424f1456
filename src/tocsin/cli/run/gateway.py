"""The process of `tocsin gateway`."""

import asyncio
from typing import TYPE_CHECKING

import structlog

from tocsin.cli.run.metrics import exported_metrics
from tocsin.cli.run.probes import probes_of
from tocsin.cli.run.process import prepared_settings, run_until_stopped
from tocsin.cli.server import configured_database
from tocsin.compose.duties import duties_running
from tocsin.compose.relays import redis_missing
from tocsin.domain.errors import SettingsError
from tocsin.domain.faults import Fault
from tocsin.gc_tuning import tune_gc
from tocsin.settings.build import setting_name
from tocsin.settings.tree import Settings

if TYPE_CHECKING:
    from tocsin.gateway.process import Gateway

_log = structlog.stdlib.get_logger(__name__)


def gateway(*, tied: bool) -> None:
    """Send client events from a Redis stream, and people's inboxes, to apps and browsers, live."""
    settings = prepared_settings()
    run_until_stopped(lambda stop: _run_gateway(settings, stop, tied=tied), tied=tied)


async def _run_gateway(settings: Settings, stop: asyncio.Event, *, tied: bool) -> None:
    opened = open_gateway(settings)
    async with (
        probes_of(settings.probes, opened.fault),
        exported_metrics(settings, None, tied=tied),
        duties_running(*opened.duties),
    ):
        tune_gc()
        stream = settings.gateway.stream if opened.events else None
        has_inbox = opened.inbox is not None
        await opened.run(
            stop, lambda at: _log.info("gateway started", address=at, stream=stream, inbox=has_inbox)
        )


def open_gateway(settings: Settings) -> "Gateway":
    """Build the gateway, which needs a way to verify tokens, and Redis, a database, or both."""
    faults = []
    found = configured_database(settings)
    if not (settings.gateway.url or settings.redis.url or found):
        field = setting_name(("redis", "url"))
        message = (
            f"must be set (redis://…) for client events, or {setting_name(('database_url',))} for inboxes"
        )
        faults.append(Fault(field=field, code="missing", message=message))
    if settings.auth.jwt_secret is None and settings.auth.jwks_url is None:
        message = f"or {setting_name(('auth', 'jwks_url'))} must be set"
        faults.append(Fault(field=setting_name(("auth", "jwt_secret")), code="missing", message=message))
    if faults:
        raise SettingsError("The gateway cannot start:", faults)
    try:
        from tocsin.gateway.inbox.live import Database
        from tocsin.gateway.process import Gateway
    except ModuleNotFoundError as error:
        raise redis_missing("gateway") from error
    database = Database(url=found.url, schema=settings.schema, settings=settings.pool) if found else None
    return Gateway(settings.gateway, settings.redis, settings.auth, database)
