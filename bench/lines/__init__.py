"""Measurements beside the race."""

from bench.contract import Line
from bench.lines.broadcast import Broadcast
from bench.lines.database.accept import Accept
from bench.lines.database.claim import ClaimCost
from bench.lines.database.growth import Growth
from bench.lines.database.planning import Planning
from bench.lines.database.search import Search
from bench.lines.latency import LatencyAgainstLoad
from bench.lines.metrics import MetricsCost
from bench.lines.outage import ProviderDown
from bench.lines.pace import SharedRate
from bench.lines.pages import Pages
from bench.lines.parts import Parts
from bench.lines.providers import Providers
from bench.lines.serve import OutOfTheBox
from bench.lines.sources.archive import Archiving
from bench.lines.sources.publisher import Publishing
from bench.lines.sources.relay import Relaying
from bench.lines.sources.streams import Streams
from bench.lines.startup import StartUp
from bench.lines.steady import Steady

OUTAGE_SECONDS = 60.0
GROWTH_ROWS = 1_000_000
BROADCAST_PEOPLE = 1_000_000
STEADY_SECONDS = 60.0


def lines(
    outage_seconds: float = OUTAGE_SECONDS,
    growth_rows: int = GROWTH_ROWS,
    broadcast_people: int = BROADCAST_PEOPLE,
    steady_seconds: float = STEADY_SECONDS,
) -> tuple[Line, ...]:
    """Give every line, in the order in which they run."""
    return (
        Accept(),
        ClaimCost(),
        Growth(growth_rows),
        Planning(),
        StartUp(),
        Parts(),
        LatencyAgainstLoad(),
        Steady(steady_seconds),
        Providers(),
        ProviderDown(outage_seconds),
        SharedRate(),
        Relaying(),
        Publishing(),
        Streams(),
        Archiving(),
        Search(),
        Pages(),
        MetricsCost(),
        Broadcast(broadcast_people),
        OutOfTheBox(),
    )
