"""`tocsin serve`, `api`, `worker`, `migrate`."""

import asyncio
from contextlib import ExitStack
from typing import Annotated

import structlog
import typer
import uvloop

from tocsin.api.server import serve_api
from tocsin.cli.output import AsJson, print_result
from tocsin.cli.run.process import prepared_settings, run_until_stopped
from tocsin.cli.run.supervisor import Child, run_tree
from tocsin.compose import data_dir, database, open_api, run_worker, tune_gc
from tocsin.domain.plan import FAN_OUT
from tocsin.settings import Settings, providers_in_use
from tocsin.store.embedded import EmbeddedPostgres
from tocsin.store.migrate import migrate as migrate_schema

GRACE_BEYOND = 5.0

_log = structlog.stdlib.get_logger(__name__)

Lanes = Annotated[
    str | None,
    typer.Option(
        help="The lanes to serve, separated by commas: names of providers, and `fanout`, which at least one "
        "worker must serve. Left out, all."
    ),
]
Tied = Annotated[bool, typer.Option("--tied", hidden=True)]


def serve() -> None:
    """Run everything: database (unless one is set), API, workers, and a relay if outboxes are set."""
    settings = prepared_settings()
    embedded = None if settings.database_url else EmbeddedPostgres(data_dir(settings))
    with ExitStack() as exits:
        if embedded:
            url = embedded.start()
            exits.callback(embedded.stop)
        else:
            url = str(settings.database_url)
        uvloop.run(migrate_schema(url, settings.schema, settings.pool))
        run_until_stopped(
            lambda stop: run_tree(
                server_children(settings, url), stop, grace=grace(settings), embedded=embedded
            )
        )


def server_children(settings: Settings, url: str, **environment: str) -> list[Child]:
    """List the processes of a server."""
    environment = {"TOCSIN_DATABASE_URL": url, **environment}
    workers = [Child(f"worker-{number + 1}", ["worker"], environment) for number in range(settings.workers)]
    relays = [Child("relay", ["relay"], environment)] if settings.outboxes else []
    return [Child("api", ["api"], environment), *workers, *relays]


def grace(settings: Settings) -> float:
    """Return how many seconds a process may take to stop before it is killed."""
    return max(settings.dispatch.stop_seconds, settings.http.drain_seconds) + GRACE_BEYOND


def api(tied: Tied = False) -> None:
    """Run the HTTP API alone."""
    settings = prepared_settings()
    with database(settings) as url:

        async def main(stop: asyncio.Event) -> None:
            async with open_api(settings, url) as app:
                tune_gc()
                await serve_api(app, settings.http, stop, lambda at: _log.info("api started", address=at))

        run_until_stopped(main, tied=tied)


def worker(lanes: Lanes = None, tied: Tied = False) -> None:
    """Run one worker alone."""
    settings = prepared_settings()
    served = _served_lanes(lanes, settings) if lanes is not None else None
    if not providers_in_use(settings):
        _log.warning(
            "no provider configured",
            detail="everything will be skipped as channel_unavailable; set TOCSIN_FCM__CREDENTIALS_FILE, "
            "or the settings of another provider",
        )
    with database(settings) as url:
        run_until_stopped(lambda stop: run_worker(settings, url, stop, served), tied=tied)


def _served_lanes(text: str, settings: Settings) -> frozenset[str]:
    """Parse the lanes that a worker serves."""
    known = [FAN_OUT, *providers_in_use(settings)]
    lanes = frozenset(text.split(","))
    if unknown := sorted(lanes.difference(known)):
        message = f"{', '.join(unknown)}: no such lane; there are {', '.join(known)}"
        raise typer.BadParameter(message, param_hint="--lanes")
    return lanes


def migrate(as_json: AsJson = False) -> None:
    """Bring the database schema up to date."""
    settings = prepared_settings()
    with database(settings) as url:
        applied = uvloop.run(migrate_schema(url, settings.schema, settings.pool))
    changed = f"Applied to schema {settings.schema}: {', '.join(applied)}"
    line = changed if applied else f"Schema {settings.schema} is up to date."
    print_result({"schema": settings.schema, "applied": applied}, as_json, line)
