"""What process trees cost: processor time and memory."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence

import psutil

SAMPLE_SECONDS = 1.0


def cpu_seconds(roots: Sequence[int]) -> float:
    """Sum user and system time of the trees under `roots`, including children that ended and were waited for.

    A process that came and went between two readings, such as a Postgres backend, is not lost: the kernel
    adds its time to its parent when the parent reaps it, as the postmaster and every prefork master do.
    """
    return sum(_own_and_reaped(process) for process in _trees(roots))


def machine_seconds() -> float:
    """Sum the time in which any core of the machine was busy or was taken by its host."""
    times = psutil.cpu_times()
    idle = times.idle + getattr(times, "iowait", 0.0)
    # Linux counts a guest's time within user and nice already.
    return float(sum(times) - idle - getattr(times, "guest", 0.0) - getattr(times, "guest_nice", 0.0))


def memory_bytes(roots: Sequence[int]) -> int:
    """Sum the proportional set sizes, so that pages shared within a tree are counted once."""
    return sum(_proportional(process) for process in _trees(roots))


class Peak:
    """The highest memory seen so far."""

    def __init__(self) -> None:
        self.bytes = 0

    def see(self, size: int) -> None:
        """Keep the size if it is the highest."""
        self.bytes = max(self.bytes, size)


@contextlib.asynccontextmanager
async def peak_memory(roots: Sequence[int]) -> AsyncIterator[Peak]:
    """Sample the trees' memory once a second, and once more at the end."""
    peak = Peak()
    sampling = asyncio.create_task(_sample(roots, peak))
    try:
        yield peak
    finally:
        sampling.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await sampling
        peak.see(memory_bytes(roots))


async def _sample(roots: Sequence[int], peak: Peak) -> None:
    while True:
        # Off the event loop: reading many maps takes milliseconds and must not delay the clock.
        peak.see(await asyncio.to_thread(memory_bytes, roots))
        await asyncio.sleep(SAMPLE_SECONDS)


def _trees(roots: Iterable[int]) -> Iterator[psutil.Process]:
    seen: set[int] = set()
    for root in roots:
        process = psutil.Process(root)
        for member in (process, *process.children(recursive=True)):
            if member.pid not in seen:
                seen.add(member.pid)
                yield member


def _own_and_reaped(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return float(times.user + times.system + times.children_user + times.children_system)


def _proportional(process: psutil.Process) -> int:
    try:
        memory = process.memory_full_info()
    except psutil.NoSuchProcess:
        return 0
    return int(getattr(memory, "pss", memory.rss))
