"""The figures of a run as rows of text, for the console and for RESULTS.md alike."""

from collections.abc import Callable, Sequence

from bench.contract import Reading
from bench.race.standing import QUIET_CORES, Spread, Standing

Row = tuple[str, ...]

RACE_HEAD: Row = ("contestant", "messages/s", "low-high", "CPU µs/msg", "peak MB")
READING_HEAD: Row = ("what", "measured", "goal", "")


def race_rows(standings: Sequence[Standing]) -> list[Row]:
    """Put the fastest first."""
    return [
        (
            each.title,
            f"{each.rate.median:,.0f}",
            between(each.rate),
            f"{each.cpu_micros.median:,.0f}",
            f"{each.peak_bytes / 1e6:,.0f}",
        )
        for each in by_rate(standings)
    ]


def ratio_tables(standings: Sequence[Standing]) -> list[tuple[Row, list[Row]]]:
    """Divide every rate by every other: the whole rates, and those per core."""
    return [
        _ratios("times the rate of", standings, lambda each: each.rate.median),
        _ratios("times per core of", standings, lambda each: each.rate_per_core),
    ]


def _ratios(
    head: str, standings: Sequence[Standing], figure: Callable[[Standing], float]
) -> tuple[Row, list[Row]]:
    ordered = by_rate(standings)
    return (head, *(each.name for each in ordered)), [
        (row.name, *("·" if row is column else f"{figure(row) / figure(column):.2f}" for column in ordered))
        for row in ordered
    ]


def reading_rows(readings: Sequence[Reading]) -> list[Row]:
    """Set each figure beside its goal, and say whether the goal is met."""
    return [(each.name, _amount(each.value, each.unit), _goal(each), _verdict(each)) for each in readings]


def disturbance(standings: Sequence[Standing]) -> str:
    """Warn where the machine was not idle apart from the run, or give an empty text."""
    worst = max((each.elsewhere_cores for each in standings), default=0.0)
    if worst <= QUIET_CORES:
        return ""
    return f"Other work took up to {worst:.1f} cores during a round; run it again on an idle machine."


def by_rate(standings: Sequence[Standing]) -> list[Standing]:
    """Order the fastest first."""
    return sorted(standings, key=lambda each: -each.rate.median)


def between(spread: Spread) -> str:
    """Write the ends of a spread."""
    return f"{spread.low:,.0f}-{spread.high:,.0f}"


def _amount(value: float, unit: str) -> str:
    return f"{value:,.0f} {unit}" if abs(value) >= 100 else f"{value:,.2f} {unit}"


def _goal(reading: Reading) -> str:
    if reading.goal is None:
        return ""
    return f"{'≥' if reading.goal.least else '≤'} {reading.goal.bound:,g}"


def _verdict(reading: Reading) -> str:
    if reading.goal is None:
        return ""
    return "met" if reading.goal.met(reading.value) else "MISSED"
