import asyncio
import socket

import httpx
import pytest
from litestar import Litestar, get
from litestar.response.base import ASGIResponse
from structlog.testing import capture_logs

from tests.databases import SCHEMA, fresh_database
from tests.edges.edge import Edge, listening, running, services
from tocsin.api.auth.roles import Role
from tocsin.api.server import ListenError, PortTakenError, serve_api
from tocsin.api.settings import HttpSettings
from tocsin.domain.errors import SettingsError
from tocsin.settings.load import load_settings
from tocsin.store.pool import Pool, PoolSettings, open_pool


async def test_the_probes_need_no_key(edge: Edge) -> None:
    assert (await edge.http.get("/healthz")).json() == {"status": "ok"}
    assert (await edge.http.get("/readyz")).json() == {"status": "ready"}


async def test_it_is_not_ready_before_the_migrations_are_done(server_url: str) -> None:
    async with (
        fresh_database(server_url) as url,
        open_pool(url, SCHEMA, PoolSettings()) as pool,
        running(services(pool)) as edge,
    ):
        answer = await edge.http.get("/readyz")

    assert (answer.status_code, answer.json()["code"]) == (503, "not_ready")
    assert "0001_foundation" in answer.json()["detail"]


async def test_it_is_not_ready_without_its_database(pool: Pool) -> None:
    async with running(services(pool)) as edge:
        pool.terminate()

        answer = await edge.http.get("/readyz")

        assert (answer.status_code, answer.json()["code"]) == (503, "not_ready")
        assert (await edge.http.get("/healthz")).status_code == 200


async def test_a_request_under_way_is_answered_before_the_server_ends() -> None:
    entered, leave, stop = asyncio.Event(), asyncio.Event(), asyncio.Event()
    ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    @get("/slow")
    async def slow() -> ASGIResponse:
        entered.set()
        await leave.wait()
        return ASGIResponse(body=b"done")

    app = Litestar([slow], openapi_config=None, logging_config=None)
    serving = asyncio.create_task(serve_api(app, HttpSettings(port=0), stop, ready.set_result))
    async with httpx.AsyncClient(base_url=await ready) as http:
        answering = asyncio.create_task(http.get("/slow"))
        await entered.wait()
        stop.set()
        done, _ = await asyncio.wait([serving, answering], timeout=0.2)
        assert not done
        leave.set()

        assert (await answering).content == b"done"
    await serving


async def test_a_request_that_never_ends_does_not_hold_the_server_for_ever() -> None:
    entered, stop = asyncio.Event(), asyncio.Event()
    ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    @get("/stuck")
    async def stuck() -> ASGIResponse:
        entered.set()
        await asyncio.Event().wait()
        return ASGIResponse()

    app = Litestar([stuck], openapi_config=None, logging_config=None)
    settings = HttpSettings(port=0, drain_seconds=0.2)
    serving = asyncio.create_task(serve_api(app, settings, stop, ready.set_result))
    async with httpx.AsyncClient(base_url=await ready) as http:
        answering = asyncio.create_task(http.get("/stuck"))
        await entered.wait()
        stop.set()

        await asyncio.wait_for(serving, 10)
        answering.cancel()


async def test_a_caller_that_hangs_up_is_not_a_failure_of_ours(edge: Edge) -> None:
    key = (await edge.key(Role.PRODUCER))["Authorization"]
    head = (
        f"POST /v1/notifications HTTP/1.1\r\nhost: x\r\nauthorization: {key}\r\ncontent-length: 100\r\n\r\n"
    )
    with capture_logs() as logs:
        _, writer = await asyncio.open_connection(edge.http.base_url.host, edge.http.base_url.port)
        writer.write(head.encode() + b'{"type"')
        await writer.drain()
        writer.close()
        await writer.wait_closed()
        async with asyncio.timeout(10):
            while not any(entry.get("method") == "POST" for entry in logs):
                await edge.http.get("/healthz")

    assert [(entry["event"], entry["status"]) for entry in logs if entry.get("method") == "POST"] == [
        ("request handled", 400)
    ]
    assert not [entry for entry in logs if entry["log_level"] == "error"]


async def test_a_taken_port_is_named_with_its_setting() -> None:
    app = Litestar([], openapi_config=None, logging_config=None)
    async with listening(app) as url:
        port = int(url.rsplit(":", 1)[1])
        with pytest.raises(PortTakenError, match=rf"Port {port} .*TOCSIN_HTTP__PORT"):
            await serve_api(app, HttpSettings(port=port), asyncio.Event(), lambda _: None)
        with pytest.raises(PortTakenError, match=rf"Port {port} .*TOCSIN_PROBES__PORT"):
            await serve_api(app, HttpSettings(port=port), asyncio.Event(), lambda _: None, section="probes")


async def test_a_port_that_anything_else_listens_on_is_taken_too() -> None:
    app = Litestar([], openapi_config=None, logging_config=None)
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(PortTakenError):
            await serve_api(app, HttpSettings(port=port), asyncio.Event(), lambda _: None)


@pytest.mark.parametrize("host", ["203.0.113.7", "no.such.host.invalid"])
async def test_an_address_of_another_machine_is_refused(host: str) -> None:
    app = Litestar([], openapi_config=None, logging_config=None)
    with pytest.raises(ListenError, match="TOCSIN_HTTP__HOST"):
        await serve_api(app, HttpSettings(host=host, port=0), asyncio.Event(), lambda _: None)


def test_every_settings_fault_is_named() -> None:
    wrong = {"HOST": "", "PORT": "70000", "MAX_BODY_BYTES": "0", "BACKLOG": "-1", "DRAIN_SECONDS": "0"}

    with pytest.raises(SettingsError) as caught:
        load_settings({f"TOCSIN_HTTP__{name}": value for name, value in wrong.items()})

    assert [fault.message for fault in caught.value.faults] == [
        "Expected str of length >= 1",
        "Expected int <= 65535",
        "Expected int >= 1",
        "Expected int >= 1",
        "Expected float > 0.0",
    ]
    assert [fault.field for fault in caught.value.faults] == [
        f"http.{name.lower()} (TOCSIN_HTTP__{name})" for name in wrong
    ]
