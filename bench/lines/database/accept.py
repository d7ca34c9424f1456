"""Accepting alone: no worker runs, every answer means that the notification is on disk."""

import asyncio
import os
import sys
import time
from asyncio.subprocess import PIPE
from collections.abc import Sequence

from bench.contract import Arena, Batch, Goal, Reading
from bench.process import ROOT, conversing
from bench.tocsin_server import tocsin_server

INTENTS = 60_000
CONNECTIONS = 64
SECONDS = 8


class Accept:
    name = "accept"
    title = "Accepting"

    async def measure(self, arena: Arena) -> Sequence[Reading]:
        async with tocsin_server(arena, workers=0, concurrency=20) as server:
            environment = {"BENCH_API": server.api_url, "BENCH_KEY": server.key}
            producer = [sys.executable, "-m", "bench.programs.tocsin_producer"]
            async with conversing(producer, environment, arena.workdir / "producer.log") as conversation:
                await conversation.ask(Batch(serial=0, count=5_000))
                began = time.perf_counter()
                await conversation.ask(Batch(serial=1, count=INTENTS))
                batched = INTENTS / (time.perf_counter() - began)
            single = await _post_singly(environment)
        return (
            Reading("intents accepted, 500 a request", batched, "/s", Goal(10_000, least=True)),
            Reading(
                f"posts accepted, {CONNECTIONS} connections",
                single,
                "/s",
                Goal(2_500, least=True),
                note="the poster takes a share of the same cores",
            ),
        )


async def _post_singly(environment: dict[str, str]) -> float:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "bench.programs.tocsin_poster",
        str(CONNECTIONS),
        str(SECONDS),
        cwd=ROOT,
        env={**os.environ, **environment},
        stdout=PIPE,
    )
    output, _ = await process.communicate()
    return float(output)
