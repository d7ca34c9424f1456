"""`tocsin relay`."""

import asyncio
from contextlib import AsyncExitStack

import structlog

from tocsin.cli.run.metrics import exported_metrics
from tocsin.cli.run.probes import answered_probes
from tocsin.cli.run.process import prepared_settings, run_until_stopped, when_started
from tocsin.cli.run.serve import Tied, running_database
from tocsin.cli.run.traces import exported_traces
from tocsin.cli.server import database_label
from tocsin.compose import catalog_folder, open_relays, read_catalog, tune_gc
from tocsin.domain.errors import SettingsError
from tocsin.domain.faults import Fault
from tocsin.settings import Settings, setting_name

_log = structlog.stdlib.get_logger(__name__)


def relay(tied: Tied = False) -> None:
    """Relay the outboxes and streams of applications into Tocsin."""
    settings = prepared_settings()
    if not settings.outboxes and not settings.streams:
        example = setting_name(("outboxes", "shop", "url"))
        fault = Fault(
            field="outboxes or streams", code="missing", message=f"none is set; set {example}, for example"
        )
        raise SettingsError("There is nothing to relay:", [fault])
    url = running_database(settings)
    run_until_stopped(lambda stop: _run_relays(settings, url, stop, tied=tied), tied=tied)


async def _run_relays(settings: Settings, url: str, stop: asyncio.Event, *, tied: bool) -> None:
    catalog = read_catalog(settings)
    async with (
        answered_probes(settings, url) as probes,
        exported_metrics(settings, url, tied=tied),
        exported_traces(),
        AsyncExitStack() as exits,
    ):
        opened = await when_started(
            lambda: exits.enter_async_context(open_relays(settings, url, catalog)), stop, tied=tied
        )
        if opened is None:
            return
        tune_gc()
        probes.catalog = catalog
        _log.info(
            "relay started",
            outboxes=sorted(settings.outboxes),
            streams=sorted(settings.streams),
            database=database_label(settings, url),
            catalog=str(catalog_folder(settings)),
        )
        async with asyncio.TaskGroup() as running:
            for each in opened:
                running.create_task(each.run(stop))
