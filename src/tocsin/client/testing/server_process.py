"""A whole Tocsin in one process: database, sandbox, API and worker, for as long as its caller lives.

The only module of the client that imports the server. It runs in its own process, not inside an application.
"""

import asyncio
import secrets
import sys
from pathlib import Path

import msgspec

from tocsin.api.auth.api_keys import create_key
from tocsin.api.auth.roles import Role
from tocsin.api.server import serve_api
from tocsin.cli.demo.stand_ins import settings_for
from tocsin.cli.run.process import run_until_stopped
from tocsin.client.testing.server import RunningTocsin
from tocsin.compose.api import open_api
from tocsin.compose.catalog import read_catalog
from tocsin.compose.database import checked_pool
from tocsin.compose.worker import open_worker
from tocsin.engine.clock import utc_now
from tocsin.logs import configure_logs
from tocsin.sandbox import Sandbox, SandboxSettings
from tocsin.settings.load import load_settings
from tocsin.settings.tree import Settings
from tocsin.store.embedded import EmbeddedPostgres
from tocsin.store.migrate import migrate


async def _serve(folder: Path, catalog: str, stop: asyncio.Event) -> None:
    jwt_secret = secrets.token_hex(32)
    # The application's own tocsin.toml may name a real database, so an empty one is read instead.
    empty = folder / "tocsin.toml"
    empty.touch()
    embedded = EmbeddedPostgres(folder)
    url = await asyncio.to_thread(embedded.start)
    try:
        async with Sandbox(SandboxSettings(folder=folder / "sandbox")) as sandbox:
            settings = load_settings(
                {
                    **settings_for(sandbox, folder / "sandbox"),
                    **({"TOCSIN_CATALOG": catalog} if catalog else {}),
                    "TOCSIN_DATABASE_URL": url,
                    "TOCSIN_HTTP__PORT": "0",
                    "TOCSIN_AUTH__JWT_SECRET": jwt_secret,
                    "TOCSIN_QUIET_HOURS__ENABLED": "false",
                    "TOCSIN_LOG__LEVEL": "warning",
                },
                empty,
            )
            configure_logs(settings.log)
            await _run(settings, url, stop, sandbox.http_url, jwt_secret)
    finally:
        await asyncio.to_thread(embedded.stop)


async def _run(settings: Settings, url: str, stop: asyncio.Event, sandbox_url: str, jwt_secret: str) -> None:
    await migrate(url, settings.schema, settings.pool)
    async with checked_pool(settings, url) as pool, pool.acquire() as connection:
        key = (await create_key(connection, "tests", Role.ADMIN, utc_now())).secret

    def announce(base_url: str) -> None:
        started = RunningTocsin(
            base_url=base_url, api_key=key, sandbox_url=sandbox_url, jwt_secret=jwt_secret
        )
        sys.stdout.buffer.write(msgspec.json.encode(started) + b"\n")
        sys.stdout.flush()

    async with (
        open_api(settings, url) as app,
        open_worker(settings, url, read_catalog(settings)) as worker,
        asyncio.TaskGroup() as group,
    ):
        group.create_task(worker.run(stop))
        group.create_task(serve_api(app, settings.http, stop, announce))


if __name__ == "__main__":
    _folder, _catalog = sys.argv[1:]
    run_until_stopped(lambda stop: _serve(Path(_folder), _catalog, stop), tied=True)
