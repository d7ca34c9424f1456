"""Connections are added as they are needed, whatever became of the CA file."""

import asyncio
from pathlib import Path

import pytest
import structlog
from pyreqwest.client import Client
from pyreqwest.exceptions import PyreqwestError

from tests.providers.http.test_guarded_client import Names, serving
from tocsin.providers.http import client as http_client
from tocsin.providers.http.client import Connections
from tocsin.providers.http.guarded_client import GuardedConnections
from tocsin.providers.http.ssrf_guard import Guard
from tocsin.providers.settings import HttpProviderSettings


@pytest.fixture(autouse=True)
def _few_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_client, "STREAMS_PER_CONNECTION", 2)


def settings(ca_file: Path) -> HttpProviderSettings:
    return HttpProviderSettings(max_concurrency=10, connect_timeout=5.0, timeout=10.0, ca_file=ca_file)


async def post_many(connections: Connections, port: int) -> set[int]:
    url = f"https://127.0.0.1:{port}/"
    replies = await asyncio.gather(*(connections.post(url, {}, b"") for _ in range(4)))
    return {reply.status for reply in replies}


async def test_a_ca_file_is_read_once(tmp_path: Path) -> None:
    async with serving(tmp_path) as server:
        connections = Connections(settings(server.ca_file))
        names = Names("127.0.0.1")
        guarded = GuardedConnections(Guard(allow_private=True, lookup=names), settings(server.ca_file))
        server.ca_file.unlink()

        assert await post_many(connections, server.port) == {204}
        assert len(connections._clients) == 2
        assert (await guarded.post(f"https://push.example.com:{server.port}/", {}, b"")).status == 204

        await connections.aclose()
        await guarded.aclose()


async def test_those_that_there_are_do_if_no_other_can_be_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(tmp_path) as server:
        connections = Connections(settings(server.ca_file))
        tries: list[None] = []

        def refuse(*_: object) -> Client:
            tries.append(None)
            raise PyreqwestError("no trusted certificates")

        monkeypatch.setattr(http_client, "_client", refuse)
        with structlog.testing.capture_logs() as lines:
            assert await post_many(connections, server.port) == {204}

        assert (len(tries), [line["event"] for line in lines]) == (1, ["connection not added"])
        await connections.aclose()
