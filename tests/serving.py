"""The API and a worker in this process, from the settings alone, as `tocsin serve` runs them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import msgspec

from tests.edges.edge import listening
from tests.running import running
from tocsin.compose.api import open_api
from tocsin.compose.catalog import read_catalog
from tocsin.compose.worker import open_worker
from tocsin.settings.tree import Settings


@asynccontextmanager
async def serving(settings: Settings, database_url: str) -> AsyncIterator[httpx.AsyncClient]:
    """Run both, and give a client of the API."""
    async with (
        open_api(settings, database_url) as app,
        listening(app, msgspec.structs.replace(settings.http, port=0)) as url,
        httpx.AsyncClient(base_url=url, timeout=20) as http,
        open_worker(settings, database_url, read_catalog(settings)) as worker,
        running(worker),
    ):
        yield http
