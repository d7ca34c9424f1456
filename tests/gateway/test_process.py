"""`tocsin gateway` as a process of its own."""

import signal

import aiohttp

from tests.acceptance.processes import Processes, free_port
from tests.acceptance.telemetry.deployed import wanted_names
from tests.gateway.clients import SECRET, ClientEvents, SseClient, token
from tests.waiting import found


async def test_it_serves_without_a_database_and_stops_within_its_time(
    processes: Processes, events: ClientEvents
) -> None:
    probes, scraped = free_port(), free_port()
    process = await processes.start(
        "gateway",
        environment={
            "TOCSIN_REDIS__URL": events.url,
            "TOCSIN_GATEWAY__STREAM": events.stream,
            "TOCSIN_GATEWAY__PORT": "0",
            "TOCSIN_AUTH__JWT_SECRET": SECRET,
            "TOCSIN_PROBES__PORT": str(probes),
            "TOCSIN_METRICS__PORT": str(scraped),
            "TOCSIN_LOG__LEVEL": "debug",
            "TOCSIN_LOG__FORMAT": "json",
        },
    )
    address = (await process.logged("gateway started"))["address"]
    secret = token()
    async with (
        aiohttp.ClientSession() as http,
        http.get(f"{address}/v1/events", params={"access_token": secret}) as response,
    ):
        client = await SseClient(response).live()
        async with http.get(f"http://127.0.0.1:{probes}/readyz") as ready:
            assert (ready.status, await ready.json()) == (200, {"status": "ready"})
        await events.append("e1")
        assert await client.ids(1) == ["e1"]
        async with http.get(f"{address}/v1/events", params={"access_token": "x"}) as refused:
            assert refused.status == 401
        async with http.get(f"{address}/v1/events", params={"access_token": secret}) as another:
            await SseClient(another).live()

        async def has_everything() -> bool:
            async with http.get(f"http://127.0.0.1:{scraped}/metrics") as page:
                text = await page.text()
            assert 'tocsin_gateway_events_sent_total{transport="sse"} 1.0' in text
            exported = {line.split("{")[0].split(" ")[0] for line in text.splitlines()}
            return {name for name in wanted_names() if "_gateway_" in name} <= exported

        await found(has_everything)
        process.signal(signal.SIGTERM)
        [end] = await client.rest()

    assert end.body["reason"] == "restart"
    assert 2_000 <= end.body["retry_ms"] <= 15_000
    assert await process.end() == 0
    assert secret not in "\n".join(process.log)
