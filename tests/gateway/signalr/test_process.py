"""`tocsin gateway` as a process of its own, killed and started again under clients of SignalR."""

import signal

from tests.acceptance.processes import Process, Processes, free_port
from tests.gateway.clients import SECRET, ClientEvents, token
from tests.gateway.signalr.clients import PATH, SSE, WEBSOCKETS, stock_client


async def test_clients_survive_a_crash_and_a_stop_and_their_tokens_are_not_logged(
    processes: Processes, events: ClientEvents
) -> None:
    port = free_port()

    async def start() -> Process:
        process = await processes.start(
            "gateway",
            environment={
                "TOCSIN_REDIS__URL": events.url,
                "TOCSIN_GATEWAY__STREAM": events.stream,
                "TOCSIN_GATEWAY__PORT": str(port),
                "TOCSIN_GATEWAY__SIGNALR_PATH": PATH,
                "TOCSIN_AUTH__JWT_SECRET": SECRET,
                "TOCSIN_LOG__LEVEL": "debug",
                "TOCSIN_LOG__FORMAT": "json",
            },
        )
        await process.logged("gateway started")
        return process

    url, secret = f"http://127.0.0.1:{port}", token(seconds=600)
    given = {"retries": [100] * 200, "resume": True}
    first = await start()
    async with (
        stock_client(url, secret, options=WEBSOCKETS, **given) as socket,
        stock_client(url, secret, options=SSE, **given) as stream,
    ):
        clients = (socket, stream)
        for client in clients:
            await client.next("connected")
        await events.append("e1")
        for client in clients:
            assert await client.notified(1) == ["e1"]
        await first.kill()
        for client in clients:
            await client.next("reconnecting")
        await events.append("e2")
        second = await start()
        for client in clients:
            await client.next("reconnected")
            assert await client.notified(1) == ["e2"]
        second.signal(signal.SIGTERM)
        for client in clients:
            assert "restart" in await client.next("reconnecting")
        assert await second.end() == 0

    logged = "\n".join(first.log + second.log)
    assert secret not in logged
    assert "id=" not in logged
