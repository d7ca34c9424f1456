"""`tocsin relay`."""

import asyncio
from contextlib import AsyncExitStack

from tocsin.cli.run.process import prepared_settings, run_until_stopped, when_started
from tocsin.cli.run.serve import Tied, running_database
from tocsin.compose import open_relays, tune_gc
from tocsin.domain.errors import SettingsError
from tocsin.domain.faults import Fault
from tocsin.settings import Settings, setting_name


def relay(tied: Tied = False) -> None:
    """Relay the outboxes of applications into Tocsin."""
    settings = prepared_settings()
    if not settings.outboxes:
        example = setting_name(("outboxes", "shop", "url"))
        fault = Fault(field="outboxes", code="missing", message=f"none is set; set {example}, for example")
        raise SettingsError("There is nothing to relay:", [fault])
    url = running_database(settings)
    run_until_stopped(lambda stop: _run_relays(settings, url, stop, tied=tied), tied=tied)


async def _run_relays(settings: Settings, url: str, stop: asyncio.Event, *, tied: bool) -> None:
    async with AsyncExitStack() as exits:
        opened = await when_started(
            lambda: exits.enter_async_context(open_relays(settings, url)), stop, tied=tied
        )
        tune_gc()
        async with asyncio.TaskGroup() as running:
            for each in opened or ():
                running.create_task(each.run(stop))
