"""The outcome of a run for a terminal of 80 columns."""

from collections.abc import Iterator, Sequence

from bench.goals import race_readings
from bench.report.outcome import Outcome
from bench.report.tables import (
    RACE_HEAD,
    READING_HEAD,
    Row,
    disturbance,
    race_rows,
    ratio_tables,
    reading_rows,
)


def console(outcome: Outcome) -> str:
    """Write the tables."""
    return "\n".join(_lines(outcome))


def _lines(outcome: Outcome) -> Iterator[str]:
    if outcome.standings:
        yield ""
        yield from _table(RACE_HEAD, race_rows(outcome.standings))
    if len(outcome.standings) > 1:
        for head, rows in ratio_tables(outcome.standings):
            yield ""
            yield from _table(head, rows)
    readings = [
        *race_readings(outcome.standings),
        *(each for line in outcome.lines for each in line.readings),
    ]
    if readings:
        yield ""
        yield from _table(READING_HEAD, reading_rows(readings))
    if busy := disturbance(outcome.standings):
        yield ""
        yield busy
    for absent in outcome.left_out:
        yield ""
        yield f"Left out: {absent.title}: {absent.reason}"


def _table(head: Row, rows: Sequence[Row]) -> Iterator[str]:
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]
    for row in (head, tuple("─" * width for width in widths), *rows):
        first, *rest = (
            cell.rjust(width) if column else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        yield "  ".join((first, *rest)).rstrip()
