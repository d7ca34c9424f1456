"""What `tocsin serve` does with no setting but where things are."""

import contextlib
import time
from collections.abc import Sequence

from bench.contestants.tocsin import running_engine
from bench.contract import Arena, Batch, Goal, Reading
from bench.controls import Controls
from bench.tocsin_server import tocsin_server
from tocsin.sandbox import Latency

LATENCY = 0.1
WARM_UP = 10_000
MESSAGES = 30_000


class OutOfTheBox:
    name = "serve"
    title = f"`tocsin serve`, untuned: FCM at {LATENCY * 1_000:g} ms"

    async def measure(self, arena: Arena) -> Sequence[Reading]:
        controls = Controls(arena.control_url)
        await controls.delay("fcm", Latency(LATENCY))
        try:
            async with contextlib.AsyncExitStack() as stack:
                server = await stack.enter_async_context(tocsin_server(arena))
                engine = await stack.enter_async_context(running_engine(arena, server))
                await engine.deliver(Batch(serial=0, count=min(WARM_UP, arena.numbers)))
                count = min(MESSAGES, arena.numbers)
                began = time.perf_counter()
                await engine.deliver(Batch(serial=1, count=count))
                rate = count / (time.perf_counter() - began)
                busiest = (await controls.stats("fcm")).most_in_flight
        finally:
            await controls.reset()
        return (
            Reading("pushes from HTTP to settled", rate, "/s", Goal(3_000, least=True)),
            Reading("most in flight at once", busiest, "messages"),
        )
