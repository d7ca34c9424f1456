"""Clients that send half a request do not keep others from being answered."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.edges.edge import Edge, running, services
from tocsin.api.auth.roles import Role
from tocsin.api.settings import HttpSettings
from tocsin.store.pool import Pool

HALF = b"POST /v1/notifications HTTP/1.1\r\nhost: x\r\n"


@asynccontextmanager
async def half_sent(edge: Edge, number: int) -> AsyncIterator[list[asyncio.StreamReader]]:
    """Open connections that each send the beginning of a request and nothing more."""
    url = edge.http.base_url
    opened = [await asyncio.open_connection(url.host, url.port) for _ in range(number)]
    try:
        for _, writer in opened:
            writer.write(HALF)
            await writer.drain()
        yield [reader for reader, _ in opened]
    finally:
        for _, writer in opened:
            writer.close()


async def test_others_are_answered_at_once_beside_slow_clients(pool: Pool) -> None:
    async with (
        running(services(pool, http=HttpSettings(port=0, header_seconds=60))) as edge,
        half_sent(edge, 300),
    ):
        began = time.monotonic()
        answer = await edge.http.get("/healthz")

    assert answer.status_code == 200
    assert time.monotonic() - began < 5


async def test_slow_clients_that_fill_every_connection_are_closed_and_others_follow(pool: Pool) -> None:
    async with (
        running(services(pool, http=HttpSettings(port=0, max_connections=5, header_seconds=0.5))) as edge,
        half_sent(edge, 20) as readers,
    ):
        answer = await edge.http.get("/healthz")
        endings = await asyncio.wait_for(asyncio.gather(*(reader.read() for reader in readers)), 15)

    assert answer.status_code == 200
    assert len(endings) == 20


async def test_a_body_that_never_ends_is_answered_when_its_time_is_over(pool: Pool) -> None:
    async with running(services(pool, http=HttpSettings(port=0, body_seconds=0.3))) as edge:
        key = (await edge.key(Role.PRODUCER))["Authorization"]
        reader, writer = await asyncio.open_connection(edge.http.base_url.host, edge.http.base_url.port)
        writer.write(HALF + f"authorization: {key}\r\ncontent-length: 100\r\n\r\n{{".encode())
        await writer.drain()
        answer = await asyncio.wait_for(reader.readuntil(b"\r\n"), 10)
        writer.close()

        assert b" 408 " in answer
        assert (await edge.http.get("/healthz")).status_code == 200
