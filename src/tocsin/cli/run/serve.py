"""The processes of `tocsin serve` and `worker`, and `migrate`."""

import asyncio
import os
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager, nullcontext
from functools import partial

import structlog
import typer

from tocsin.cli.output import print_result, print_server
from tocsin.cli.run.connections import warn_of_connections
from tocsin.cli.run.metrics import exported_metrics
from tocsin.cli.run.observed import observed
from tocsin.cli.run.probes import answered_tree_probes
from tocsin.cli.run.process import prepared_settings, run_until_stopped
from tocsin.cli.run.supervisor import Child, run_tree
from tocsin.cli.schema_use import check_server_schema, in_server_schema
from tocsin.cli.server import configured_database, database_label
from tocsin.compose.catalog import catalog_folder, read_catalog
from tocsin.compose.database import data_dir
from tocsin.compose.relays import has_sources
from tocsin.compose.worker import open_worker
from tocsin.domain.errors import DatabaseError, SettingsError, TocsinError
from tocsin.domain.faults import Fault
from tocsin.domain.plan import FAN_OUT
from tocsin.domain.timing.quiet_hours import quiet_hours_rule
from tocsin.engine.duty import pause
from tocsin.profiles.profile import VARIABLE, Profile, read_profile
from tocsin.settings.build import setting_name
from tocsin.settings.tree import Settings, providers_in_use
from tocsin.store.embedded import EmbeddedPostgres
from tocsin.store.migrate import migrate as migrate_schema
from tocsin.store.pool import OR_EMBEDDED
from tocsin.telemetry.samples import TreeSamples

GRACE_BEYOND = 5.0


class InterruptedMigrationError(TocsinError):
    """A signal ended a migration."""


_log = structlog.stdlib.get_logger(__name__)


def serve(profile: str | None) -> None:
    """Run everything: database (unless one is set), API, workers, and a relay if it has sources."""
    if profile is not None:
        # For the processes of the tree too.
        os.environ[VARIABLE] = profile
    settings = prepared_settings()
    active = read_profile(os.environ)
    run_until_stopped(lambda stop: _serve(settings, active, stop), owner=True)


async def _serve(settings: Settings, profile: Profile | None, stop: asyncio.Event) -> None:
    _log.info("quiet hours configured", rule=quiet_hours_rule(settings.quiet_hours))
    if profile is not None:
        await _check_profile(settings, profile)
    async with AsyncExitStack() as exits:
        embedded = _embedded(settings)
        url = await started(embedded, exits) if embedded else str(settings.database_url)
        with _named_by(profile, "database_url") if profile else nullcontext():
            await migrate_schema(url, settings.schema, settings.pool)
        await check_server_schema(settings, url)
        children, samples, process_ids = server_children(settings, url), TreeSamples(), set[int]()
        if profile is not None:
            # It has no API, and one listener for the probes of them all.
            children = [child.with_settings(TOCSIN_PROBES__PORT="null") for child in children[1:]]
            probes = answered_tree_probes(settings, url, process_ids, len(children))
            with _named_by(profile, "probes", "port"):
                await exits.enter_async_context(probes)
        await warn_of_connections(settings, url, [child.arguments[0] for child in children])
        await exits.enter_async_context(exported_metrics(settings, url, samples.read))
        await run_tree(
            children,
            stop,
            grace=grace(settings),
            embedded=embedded,
            samples=samples,
            process_ids=process_ids,
        )


async def _check_profile(settings: Settings, profile: Profile) -> None:
    """Raise SettingsError if Redis does not answer; log variables that are set and have no effect."""
    if profile.unused:
        _log.warning("profile variables unused", profile=profile.name, variables=list(profile.unused))
    if message := await _redis_fault(settings):
        fault = Fault(field=setting_name(("redis", "url")), code="unreachable", message=message)
        raise SettingsError("The service cannot start:", [profile.named(fault)])


@contextmanager
def _named_by(profile: Profile, *path: str) -> Iterator[None]:
    """Raise what cannot be used under the name of the variable that decides the setting for it."""
    try:
        yield
    except SettingsError:
        raise
    except TocsinError as error:
        # A service that a profile stands for has no embedded database.
        message = str(error).replace(OR_EMBEDDED, "")
        fault = Fault(field=setting_name(path), code="unusable", message=message)
        raise SettingsError("The service cannot start:", [profile.named(fault)]) from error


async def _redis_fault(settings: Settings) -> str | None:
    """Return why Redis cannot be used, without its address, which may hold a password."""
    try:
        from tocsin.ingress.redis_streams.reader import ping
    except ModuleNotFoundError:
        return "needs the client of Redis: pip install 'tocsin[redis]'"
    failure = await ping(settings.redis)
    return f"Redis does not answer, or refuses the connection: {failure}" if failure else None


def _embedded(settings: Settings) -> EmbeddedPostgres | None:
    return None if settings.database_url else EmbeddedPostgres(data_dir(settings))


async def started(embedded: EmbeddedPostgres, exits: AsyncExitStack) -> str:
    """Start the embedded database, to be stopped with `exits`, and return its address."""
    # Stopping waits for a start under way, also for one whose caller was cancelled.
    exits.push_async_callback(asyncio.to_thread, embedded.stop)
    return await asyncio.to_thread(embedded.start)


def server_children(settings: Settings, url: str, **environment: str) -> list[Child]:
    """List the processes of a server."""
    environment = {"TOCSIN_DATABASE_URL": url, **environment}
    names = [f"worker-{number + 1}" for number in range(settings.workers)]
    others = [*names, "relay"] if has_sources(settings) else names
    return [
        Child("api", ["api"], environment),
        *(
            Child(name, [name.partition("-")[0]], environment | _probes_port(settings, number))
            for number, name in enumerate(others)
        ),
    ]


def _probes_port(settings: Settings, number: int) -> dict[str, str]:
    """Return the setting that gives each process without an API a port of its own for its probes."""
    port = settings.probes.port
    return {"TOCSIN_PROBES__PORT": str(port + number)} if port else {}


def grace(settings: Settings) -> float:
    """Return how many seconds a process may take to stop before it is killed."""
    return max(settings.dispatch.stop_seconds, settings.http.drain_seconds) + GRACE_BEYOND


def running_database(settings: Settings) -> str:
    """Return the address of the database, or raise DatabaseError: only `serve` starts one."""
    if found := configured_database(settings):
        return found.url
    raise DatabaseError(
        f"No database is set, and none runs in {data_dir(settings)}. Set TOCSIN_DATABASE_URL, or start "
        "`tocsin serve`, which runs one."
    )


def worker(lanes: str | None, *, tied: bool) -> None:
    """Run one worker alone."""
    settings = prepared_settings()
    served = _served_lanes(lanes, settings) if lanes is not None else None
    if not providers_in_use(settings):
        _log.warning(
            "no provider configured",
            detail="everything will be skipped as channel_unavailable; set TOCSIN_FCM__CREDENTIALS_FILE, "
            "or the settings of another provider",
        )
    url = running_database(settings)
    run_until_stopped(lambda stop: _run_worker(settings, url, stop, served, tied=tied), tied=tied)


async def _run_worker(
    settings: Settings, url: str, stop: asyncio.Event, lanes: frozenset[str] | None, *, tied: bool
) -> None:
    catalog = read_catalog(settings)
    working = partial(open_worker, settings, url, catalog, lanes)
    opening = partial(in_server_schema, working, settings, url, alone=None if tied else "worker")
    async with observed(opening, settings, url, catalog, stop, tied=tied) as worker_:
        if worker_ is None:
            return
        _log.info(
            "worker started",
            lanes=sorted(lanes or (FAN_OUT, *providers_in_use(settings))),
            database=database_label(settings, url),
            catalog=str(catalog_folder(settings)),
        )
        await worker_.run(stop)


def _served_lanes(text: str, settings: Settings) -> frozenset[str]:
    """Parse the lanes that a worker serves."""
    known = [FAN_OUT, *providers_in_use(settings)]
    lanes = frozenset(text.split(","))
    if unknown := sorted(lanes.difference(known)):
        message = f"{', '.join(unknown)}: no such lane; there are {', '.join(known)}"
        raise typer.BadParameter(message, param_hint="--lanes")
    return lanes


def migrate(*, as_json: bool) -> None:
    """Bring the database schema up to date."""
    settings = prepared_settings()
    applied: list[str] = []
    run_until_stopped(lambda stop: _migrate(settings, applied, stop), owner=True)
    changed = f"Applied to schema {settings.schema}: {', '.join(applied)}"
    line = changed if applied else f"Schema {settings.schema} is up to date."
    print_result({"schema": settings.schema, "applied": applied}, as_json, line)


async def _migrate(settings: Settings, applied: list[str], stop: asyncio.Event) -> None:
    """Migrate the database, the embedded one if none is set, and add what was applied; end at `stop`."""
    async with AsyncExitStack() as exits:
        embedded = _embedded(settings)
        url = await started(embedded, exits) if embedded else str(settings.database_url)
        print_server(
            f"embedded database in {data_dir(settings)}" if embedded else database_label(settings, url)
        )
        migrating = asyncio.create_task(migrate_schema(url, settings.schema, settings.pool))
        ended = asyncio.Event()
        migrating.add_done_callback(lambda _: ended.set())
        await pause(None, stop, ended)
        if not ended.is_set():
            migrating.cancel()
            raise InterruptedMigrationError(
                "The migration was interrupted. What was applied stays; run it again: tocsin migrate"
            )
        applied += await migrating
