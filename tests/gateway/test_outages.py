"""Redis away: at the start, for a while, and silently."""

import signal
from pathlib import Path

import pytest
from redis.asyncio import Redis
from structlog.testing import capture_logs

from tests.gateway.clients import ClientEvents, RunningGateway, bearer, counted
from tests.redis_servers import RedisServer, running_redis
from tests.waiting import found, until
from tocsin.telemetry import metrics


async def not_ready(gateway: RunningGateway, fault: str | None) -> None:
    """Wait until the gateway is not ready for this reason, or ready."""

    async def look() -> bool:
        return await gateway.gateway.fault() == fault

    await found(look)
    assert counted(metrics.gateway_reading) == (0 if fault else 1)


async def test_sessions_outlast_redis_and_get_what_was_appended_meanwhile(
    redis_server: RedisServer, events: ClientEvents
) -> None:
    with capture_logs() as lines:
        async with events.gateway() as gateway:
            async with gateway.sse() as client:
                await client.live()
                await events.append("e1")
                await redis_server.kill()
                await not_ready(gateway, "Redis does not answer.")
                await redis_server.start()
                await events.redis.connection_pool.disconnect()
                await events.append("e2")

                assert await client.ids(2) == ["e1", "e2"]
            await not_ready(gateway, None)
            await until(lambda: any(line["event"] == "duty recovered" for line in lines))

    (recovered,) = [line for line in lines if line["event"] == "duty recovered"]
    assert (recovered["duty"], recovered["log_level"]) == ("event reader", "info")


async def test_a_gateway_that_starts_without_redis_waits_for_it(tmp_path: Path) -> None:
    server = RedisServer(tmp_path)
    events = ClientEvents(Redis.from_url(server.url), server.url, "gateway:client-events")
    async with events.gateway(wait=False) as gateway:
        await not_ready(gateway, "Redis does not answer.")
        status, problem, headers = await gateway.refusal(headers=bearer())
        assert (status, problem["code"]) == (503, "unavailable")
        assert int(headers["retry-after"]) > 0
        async with gateway.websocket() as socket:
            last, code = await socket.end()
        assert (last["reason"], code) == ("unavailable", 1013)
        await server.start()
        try:
            await not_ready(gateway, None)
            async with gateway.sse() as client:
                await client.live()
                await events.append("e1")
                assert await client.ids(1) == ["e1"]
        finally:
            await events.redis.aclose()
            await server.kill()


async def test_a_redis_that_falls_silent_is_noticed_and_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tocsin.gateway.reader.BLOCK_SECONDS", 0.1)
    async with running_redis(tmp_path) as server, Redis.from_url(server.url) as redis:
        events = ClientEvents(redis, server.url, "gateway:client-events")
        async with events.gateway() as gateway, gateway.sse() as client:
            await client.live()
            assert server._process is not None
            server._process.send_signal(signal.SIGSTOP)
            try:
                await not_ready(gateway, "Redis does not answer.")
                headers = bearer() | {"Last-Event-ID": f"{2**60}-0"}
                status, problem, _ = await gateway.refusal(headers=headers)
                assert (status, problem["code"]) == (503, "unavailable")
            finally:
                server._process.send_signal(signal.SIGCONT)
            await not_ready(gateway, None)
            wanted = [f"e{number}" for number in range(20)]
            await events.append_all(wanted)
            assert await client.ids(20) == wanted
