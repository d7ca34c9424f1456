"""How long a message takes from its scheduled arrival to the provider's door, at rising load."""

import os
import statistics
import time
from collections.abc import Sequence

import msgspec

from bench.contract import Arena, Chart, Curve, Goal, Reading
from bench.goals import BUSY_P99_MS, IDLE_MEDIAN_MS, IDLE_P99_MS
from bench.meter import cpu_seconds, machine_seconds
from bench.paced_server import COLLECT_SECONDS, CONCURRENCY, WORKERS, PacedServer, paced_server
from bench.process import ProgramFailedError
from bench.progress import tell

WARM_UP = 5_000
MESSAGES = 20_000
RATE_ROUNDS = 3
IDLE_A_SECOND = 40.0
IDLE_SECONDS = 25.0
BUSY = 0.7
SHARES = (0.1, 0.3, 0.5, 0.6, BUSY, 0.8, 0.9, 1.0)
SHARE_SECONDS = 8.0

# FCM's message ids begin with the microsecond in which the message came in, the stand-in's as well.
LATENCY = """
select
    count(*) as messages,
    count(*) filter (where micros is null) as unsent,
    percentile_cont(array[0.5, 0.99, 1]) within group (order by micros / 1e3) as millis
from (
    select
        substring(deliveries.provider_message_id from '0:([0-9]+)%')::bigint
        - split_part(notifications.idempotency_key, '-', 3)::bigint as micros
    from deliveries
    join notifications on notifications.id = deliveries.notification_id
    where notifications.idempotency_key like $1
) as each
"""


class Step(msgspec.Struct, frozen=True):
    """Latencies at one rate."""

    rate: float
    messages: int
    median: float
    p99: float
    slowest: float
    elsewhere_cores: float

    def readings(self, name: str, median: Goal | None, p99: Goal | None) -> tuple[Reading, Reading]:
        note = (
            f"{self.messages:,} messages at {self.rate:,.0f}/s; the slowest took {self.slowest:,.0f} ms; "
            f"other work took {self.elsewhere_cores:.1f} cores"
        )
        return (
            Reading(f"{name}, median", self.median, "ms", median),
            Reading(f"{name}, p99", self.p99, "ms", p99, note=note),
        )


class LatencyAgainstLoad:
    name = "latency"
    title = "Latency against load"

    async def measure(self, arena: Arena) -> Sequence[Reading | Chart]:
        """Send messages one by one to an idle Tocsin, then at shares of the highest rate."""
        async with paced_server(arena) as bench:
            await bench.highest_rate(min(WARM_UP, arena.numbers))
            idle = await _step(bench, IDLE_A_SECOND, IDLE_SECONDS, collect_seconds=0.0)
            count = min(MESSAGES, arena.numbers)
            rates = [await bench.highest_rate(count) for _ in range(RATE_ROUNDS)]
            rate = statistics.median(rates)
            steps = {
                share: await _step(bench, share * rate, SHARE_SECONDS, collect_seconds=COLLECT_SECONDS)
                for share in SHARES
            }
        return [
            *idle.readings("to the provider when idle", IDLE_MEDIAN_MS, IDLE_P99_MS),
            Reading(
                "messages at the highest rate",
                rate,
                "/s",
                note=f"{WORKERS} workers of {CONCURRENCY}, 500 intents a request; the median of "
                + ", ".join(f"{each:,.0f}" for each in rates),
            ),
            *(
                reading
                for share, step in steps.items()
                for reading in step.readings(
                    f"to the provider at {100 * share:.0f} % of it",
                    None,
                    BUSY_P99_MS if share == BUSY else None,
                )
            ),
            _chart(rate, idle, steps),
        ]


async def _step(bench: PacedServer, rate: float, seconds: float, *, collect_seconds: float) -> Step:
    """Send by schedule, and compare the times of arrival with the schedule."""
    before, began = _elsewhere(bench), time.perf_counter()
    keys = await bench.send(rate, seconds, collect_seconds=collect_seconds)
    elsewhere = (_elsewhere(bench) - before) / (time.perf_counter() - began)
    found = await bench.books.fetchrow(LATENCY, keys)
    if found["unsent"]:
        raise ProgramFailedError(f"{found['unsent']} messages of the schedule were not sent")
    median, p99, slowest = found["millis"]
    tell(f"latency    {rate:,.0f}/s: median {median:.1f} ms, p99 {p99:.1f} ms")
    return Step(rate, found["messages"], median, p99, slowest, max(0.0, elsewhere))


def _elsewhere(bench: PacedServer) -> float:
    """Return the processor time of all that is no part of this run."""
    return machine_seconds() - cpu_seconds((os.getpid(), bench.server.postmaster_pid))


def _chart(rate: float, idle: Step, steps: dict[float, Step]) -> Chart:
    loads = {100 * idle.rate / rate: idle, **{100 * share: step for share, step in steps.items()}}
    idle_load = min(loads)
    return Chart(
        name="latency",
        title="from the scheduled arrival to the provider (the bars are goals)",
        across="load, % of the highest rate",
        upwards="ms",
        curves=(
            Curve(
                "median",
                tuple((load, step.median) for load, step in loads.items()),
                goals=((idle_load, IDLE_MEDIAN_MS.bound),),
            ),
            Curve(
                "p99",
                tuple((load, step.p99) for load, step in loads.items()),
                goals=((idle_load, IDLE_P99_MS.bound), (100 * BUSY, BUSY_P99_MS.bound)),
            ),
        ),
    )
