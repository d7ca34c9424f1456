"""The process of `tocsin relay`."""

import asyncio
from functools import partial

import structlog

from tocsin.cli.run.observed import observed, run_all
from tocsin.cli.run.process import prepared_settings, run_until_stopped
from tocsin.cli.run.serve import running_database
from tocsin.cli.schema_use import in_server_schema
from tocsin.cli.server import database_label
from tocsin.compose.catalog import catalog_folder, read_catalog
from tocsin.compose.relays import has_sources, open_relays
from tocsin.domain.errors import SettingsError
from tocsin.domain.faults import Fault
from tocsin.settings.build import setting_name
from tocsin.settings.tree import Settings

_log = structlog.stdlib.get_logger(__name__)


def relay(*, tied: bool) -> None:
    """Relay the outboxes, streams and queues of applications into Tocsin."""
    settings = prepared_settings()
    if not has_sources(settings):
        example = setting_name(("outboxes", "shop", "url"))
        fault = Fault(
            field="outboxes, streams or queues",
            code="missing",
            message=f"none is set; set {example}, for example",
        )
        raise SettingsError("There is nothing to relay:", [fault])
    url = running_database(settings)
    run_until_stopped(lambda stop: _run_relays(settings, url, stop, tied=tied), tied=tied)


async def _run_relays(settings: Settings, url: str, stop: asyncio.Event, *, tied: bool) -> None:
    catalog = read_catalog(settings)
    relaying = partial(open_relays, settings, url, catalog)
    opening = partial(in_server_schema, relaying, settings, url, alone=None if tied else "relay")
    async with observed(opening, settings, url, catalog, stop, tied=tied) as relays:
        if relays is None:
            return
        _log.info(
            "relay started",
            outboxes=sorted(settings.outboxes),
            streams=sorted(settings.streams),
            queues=sorted(settings.queues),
            database=database_label(settings, url),
            catalog=str(catalog_folder(settings)),
        )
        await run_all(relays, stop)
