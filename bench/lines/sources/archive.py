"""Archiving a queue: what a message takes, and whether memory stays flat."""

import asyncio
import contextlib
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import psutil
import zstandard

from bench.broker import free_port
from bench.contract import Arena, Batch, Goal, Reading
from bench.goals import NONE
from bench.meter import cpu_seconds
from bench.process import conversing, running
from bench.progress import tell

GOAL = 10_000
RATE = 12_000
"""Messages sent to the queue a second: more than the goal, so that the goal is no upper bound."""
SECONDS = 30
WARM_UP = 60_000
SAMPLE_SECONDS = 0.25
MEGABYTE = 1024 * 1024


class Archiving:
    name = "archive"
    title = "Archiving a queue"

    async def measure(self, arena: Arena) -> Sequence[Reading]:
        folder, port = arena.workdir / "archive", free_port()
        folder.mkdir()
        url = f"http://127.0.0.1:{port}"
        async with (
            conversing(
                [sys.executable, "-m", "bench.programs.sqs_stand_in"],
                {"BENCH_PORT": str(port), "BENCH_RATE": str(RATE)},
                arena.workdir / "sqs_stand_in.log",
            ) as queue,
            running(
                [sys.executable, "-m", "tocsin.cli", "archive"],
                {
                    "TOCSIN_LOG__LEVEL": "warning",
                    "TOCSIN_AWS__REGION": "ap-southeast-1",
                    "TOCSIN_AWS__ACCESS_KEY_ID": "bench",
                    "TOCSIN_AWS__SECRET_ACCESS_KEY": "bench",
                    "TOCSIN_ARCHIVE__QUEUE_URL": f"{url}/123456789012/archive",
                    "TOCSIN_ARCHIVE__DESTINATION": str(folder),
                    "TOCSIN_ARCHIVE__ROLL_SECONDS": "1",
                },
                arena.workdir / "tocsin_archive.log",
            ) as archive,
        ):
            await queue.ask(Batch(serial=0, count=WARM_UP))
            count = RATE * SECONDS
            tell(f"archive    {RATE:,} messages a second for {SECONDS} s")
            sizes: list[int] = []
            watching = asyncio.create_task(_watch(psutil.Process(archive.pid), sizes))
            before, began = cpu_seconds([archive.pid]), time.perf_counter()
            await queue.ask(Batch(serial=1, count=count))
            seconds = time.perf_counter() - began
            micros = 1e6 * (cpu_seconds([archive.pid]) - before) / count
            watching.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watching
        lines, packed = await asyncio.to_thread(_read_back, folder)
        quarter = len(sizes) // 4
        growth = statistics.median(sizes[-quarter:]) - statistics.median(sizes[quarter : 2 * quarter])
        return (
            Reading(
                "messages archived",
                count / seconds,
                "/s",
                Goal(GOAL, least=True),
                note=f"{count:,} at {RATE:,} a second, one process, to a disk with fsync",
            ),
            Reading(
                "CPU of the archive", micros, "µs a message", note=f"{packed / lines:.0f} bytes each on disk"
            ),
            Reading(
                "memory grown",
                growth / MEGABYTE,
                "MB",
                Goal(16, least=False),
                note=f"from the second quarter to the last; the highest was {max(sizes) / MEGABYTE:.0f} MB",
            ),
            Reading("lost or archived twice", abs(WARM_UP + count - lines), "messages", NONE),
        )


async def _watch(archive: psutil.Process, sizes: list[int]) -> None:
    while True:
        sizes.append(archive.memory_info().rss)
        await asyncio.sleep(SAMPLE_SECONDS)


def _read_back(folder: Path) -> tuple[int, int]:
    """Count the lines and the bytes of all files."""
    lines = packed = 0
    for file in folder.glob("day=*/hour=*/*.ndjson.zst"):
        packed += file.stat().st_size
        with file.open("rb") as content, zstandard.ZstdDecompressor().stream_reader(content) as reader:
            while chunk := reader.read(MEGABYTE):
                lines += chunk.count(b"\n")
    return lines, packed
