"""The dashboard on a port of its own: the pages are there alone, in the process of the API."""

import signal
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import httpx
import pytest

from tests.acceptance.processes import Processes, processes_in
from tests.edges.api.dashboard.visits import SIGN_IN, Visit
from tests.edges.edge import listening, services
from tocsin.api.app import create_app
from tocsin.api.auth.api_keys import create_key
from tocsin.api.auth.roles import Role
from tocsin.api.settings import DashboardSettings
from tocsin.engine.clock import utc_now
from tocsin.store.pool import Pool


async def test_the_pages_are_on_their_own_port_alone(pool: Pool) -> None:
    app = create_app(services(pool, dashboard=DashboardSettings(port=0)))
    key = (await create_key(pool, "console", Role.VIEWER, utc_now())).secret
    async with AsyncExitStack() as exits:
        api_url = await exits.enter_async_context(listening(app))
        own_url = await exits.enter_async_context(listening(app.state.dashboard_app))
        api = await exits.enter_async_context(httpx.AsyncClient(base_url=api_url))
        own = await exits.enter_async_context(httpx.AsyncClient(base_url=own_url))

        assert (await Visit(own).sign_in(key)).status_code == 303
        assert "Sign out" in await Visit(own).shown("/dashboard/now")
        for path in ("/healthz", "/readyz"):
            assert (await own.get(path)).status_code == 200
        root = await own.get("/")
        assert (root.status_code, root.headers["location"]) == (303, "/dashboard")

        for path in (SIGN_IN, "/dashboard", "/dashboard/now", "/dashboard/assets/dashboard.css", "/"):
            assert (await api.get(path)).status_code == 404, path
        bearer = {"Authorization": f"Bearer {key}"}
        assert (await api.get("/v1/notifications", headers=bearer)).status_code == 200
        for path in ("/v1/notifications", "/v1/time", "/openapi.json"):
            assert (await own.get(path, headers=bearer)).status_code == 404, path


async def test_the_process_serves_both_ports_and_stops_both(database_url: str, processes: Processes) -> None:
    process = await processes.start("api", environment=settings(database_url))
    api = (await process.logged("api started"))["address"]
    own = (await process.logged("dashboard started"))["address"]
    async with httpx.AsyncClient() as http:
        assert (await http.get(own + SIGN_IN)).status_code == 200
        assert (await http.get(api + SIGN_IN)).status_code == 404

    process.signal(signal.SIGTERM)

    assert await process.end() == 0


async def test_a_port_that_is_taken_ends_the_process_with_its_name(
    database_url: str, processes: Processes
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        given = settings(database_url) | {"TOCSIN_DASHBOARD__PORT": str(port)}
        process = await processes.run("api", environment=given)

    written = " ".join("\n".join(process.output + process.log).split())
    assert f"Port {port} on 127.0.0.1 is taken by another process." in written
    assert "TOCSIN_DASHBOARD__PORT" in written
    assert await process.end() != 0


def settings(database_url: str) -> dict[str, str]:
    return {
        "TOCSIN_DATABASE_URL": database_url,
        "TOCSIN_HTTP__PORT": "0",
        "TOCSIN_DASHBOARD__PORT": "0",
    }


@pytest.fixture
async def processes(tmp_path: Path) -> AsyncIterator[Processes]:
    async with processes_in(tmp_path) as started:
        yield started
