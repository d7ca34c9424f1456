"""The process of `tocsin mailer`."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial

import msgspec
import structlog

from tocsin.catalog.catalog import Catalog
from tocsin.cli.run.observed import observed, run_all
from tocsin.cli.run.process import prepared_settings, run_until_stopped
from tocsin.cli.run.serve import running_database
from tocsin.cli.schema_use import MAILER, mailer_pool
from tocsin.cli.server import database_label
from tocsin.compose.catalog import catalog_folder, read_catalog
from tocsin.compose.database import database_clock
from tocsin.compose.duties import duties_running
from tocsin.compose.parts import known_toggles, planner
from tocsin.compose.relays import open_streams
from tocsin.compose.worker import open_worker
from tocsin.domain.errors import SettingsError
from tocsin.domain.faults import Fault
from tocsin.domain.plan import FAN_OUT
from tocsin.domain.timing.quiet_hours import QuietHoursSettings
from tocsin.engine.periodic.settings import PeriodicSettings
from tocsin.engine.toggles.toggles import ToggleWatch
from tocsin.engine.worker import Worker
from tocsin.ingress.mail_commands.catalog import MailCatalog
from tocsin.ingress.mail_commands.decoder import MAIL_COMMANDS
from tocsin.ingress.redis_streams.settings import NO_URL
from tocsin.ingress.report import LagWriter
from tocsin.ingress.source import IntentSource
from tocsin.providers.smtp.settings import SmtpSettings
from tocsin.settings.build import setting_name
from tocsin.settings.tree import Settings, providers_in_use

SMTP = SmtpSettings.section

_log = structlog.stdlib.get_logger(__name__)


def mailer(*, tied: bool) -> None:
    """Send the mail that other services ask for by commands in a Redis stream."""
    given = prepared_settings()
    if faults := list(mailer_faults(given)):
        raise SettingsError("The mailer cannot start:", faults)
    settings = mail_settings(given)
    url = running_database(settings)
    run_until_stopped(lambda stop: _run_mailer(settings, url, stop, tied=tied), tied=tied)


def mailer_faults(settings: Settings) -> Iterator[Fault]:
    """List what keeps the mailer from starting."""
    if not settings.provider(SmtpSettings).is_configured:
        message = "must be set: the mailer sends by SMTP"
        yield Fault(field=setting_name((SMTP, SmtpSettings.enabled_by)), code="missing", message=message)
    for name, entry in providers_in_use(settings).items():
        if entry.channel == "email" and name != SMTP:
            message = (
                "must not be set for the mailer, which sends by SMTP alone: a mail handed back to the stream "
                "of commands would go round for ever"
            )
            field = setting_name((name, entry.settings.enabled_by))
            yield Fault(field=field, code="contradiction", message=message)
    if settings.catalog is None:
        message = "must be set: the texts of the mails are there. The shipped catalog is a demonstration"
        yield Fault(field=setting_name(("catalog",)), code="missing", message=message)
    if not (settings.mailer.url or settings.redis.url):
        yield Fault(field=setting_name(("mailer", "url")), code="missing", message=NO_URL)


def mail_settings(settings: Settings) -> Settings:
    """Return the settings with SMTP as the only provider; when a mail is due was decided by its sender."""
    others = {name: entry.settings() for name, entry in settings.registry.items() if name != SMTP}
    return msgspec.structs.replace(
        settings,
        **others,
        quiet_hours=QuietHoursSettings(enabled=False),
        periodic=PeriodicSettings(),
        streams={MAILER: settings.mailer},
    )


async def _run_mailer(settings: Settings, url: str, stop: asyncio.Event, *, tied: bool) -> None:
    catalog = MailCatalog(read_catalog(settings))
    if not catalog.types:
        message = f"{catalog_folder(settings)} has no type with texts for mail"
        fault = Fault(field=setting_name(("catalog",)), code="empty", message=message)
        raise SettingsError("The mailer cannot start:", [fault])
    opening = partial(open_mailer, settings, url, catalog)
    async with observed(opening, settings, url, catalog, stop, tied=tied) as mailer:
        if mailer is None:
            return
        _log.info(
            "mailer started",
            stream=settings.mailer.stream,
            types=len(catalog.types),
            database=database_label(settings, url),
            catalog=str(catalog_folder(settings)),
        )
        await run_all(mailer, stop)


@asynccontextmanager
async def open_mailer(
    settings: Settings, url: str, catalog: Catalog
) -> AsyncIterator[list[IntentSource | Worker]]:
    """Build what accepts the commands, and the worker that sends them."""
    async with (
        mailer_pool(settings, url, SMTP) as pool,
        known_toggles(settings, pool) as toggles,
        open_worker(settings, url, catalog, (SMTP, FAN_OUT), kind=MAILER) as worker,
    ):
        clock = await database_clock(pool)
        plans = planner(settings, catalog, toggles)
        consumers = open_streams(settings, pool, plans, clock, None, MAIL_COMMANDS)
        watch = ToggleWatch(toggles, url, settings.schema, settings.pool)
        async with duties_running(watch, clock, LagWriter(pool, [each.report for each in consumers])):
            yield [*consumers, worker]
