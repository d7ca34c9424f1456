"""The outcome of a run as the page RESULTS.md."""

from collections.abc import Iterator, Sequence

from bench.contract import Chart
from bench.goals import race_readings
from bench.race.standing import Standing
from bench.report.outcome import Outcome
from bench.report.tables import (
    RACE_HEAD,
    READING_HEAD,
    Row,
    between,
    by_rate,
    disturbance,
    race_rows,
    ratio_tables,
    reading_rows,
)

HOW_TO_READ = """\
- **messages/s**: from the first enqueue until every message was answered by the sandbox and the
  contestant's own books were closed; the median of the rounds, with the lowest and the highest beside it.
  The sandbox's counts prove that every message arrived, each with an id of its own.
- **CPU µs/msg**: user and system time of all the contestant's processes within that time, its producer and
  its Redis or Postgres included, divided by the messages. The sandbox's own time is listed apart.
- **times per core**: compares messages for each second of that processor time.
- **peak MB**: the highest sum of proportional set sizes of the same processes, sampled once a second in a
  further round, which is not timed.
- Contestants run in turns, each started afresh for every round and warmed up before the clock starts.
- Slow contestants are given fewer messages, so that every round lasts about as long.
- Redis keeps nothing on disk here (no append-only file, no snapshots), as is usual for these queues: what
  waits in it is lost with it. "BullMQ, append-only file" writes one and syncs it each second, so that a
  crash loses the last second. `firebase-admin` alone has no queue at all. Tocsin commits every message to
  Postgres with `fsync` on before it is accepted.
- The sandbox shares the cores with whoever is measured, so all rates are lower than they would be against a
  service elsewhere.
"""


def results_page(outcome: Outcome, plot: str) -> str:
    """Write the page."""
    return "\n".join(_lines(outcome, plot)) + "\n"


def picture(chart: Chart) -> str:
    """Return the file name of a chart's picture."""
    return f"{chart.name}.svg"


def _lines(outcome: Outcome, plot: str) -> Iterator[str]:
    yield "# Results"
    yield ""
    yield f"Written by `{outcome.command}` on {outcome.date}."
    yield "`make bench` writes it anew; the [README](README.md) says how it measures."
    yield ""
    yield f"![Rate and processor time of each contestant]({plot})"
    yield ""
    yield f"## The race: FCM messages at {outcome.latency_ms:g} ms latency"
    yield ""
    yield from _table(RACE_HEAD, race_rows(outcome.standings))
    for head, rows in ratio_tables(outcome.standings):
        yield ""
        yield from _table(head, rows)
    if busy := disturbance(outcome.standings):
        yield ""
        yield f"**{busy}**"
    for absent in outcome.left_out:
        yield ""
        yield f"Left out: **{absent.title}**: {absent.reason}."
    yield from _goals(outcome)
    for line in outcome.lines:
        yield ""
        yield f"## {line.title}"
        yield ""
        yield from _table(READING_HEAD, reading_rows(line.readings))
        for chart in line.charts:
            yield ""
            yield f"![{chart.title}]({picture(chart)})"
        for note in (f"{each.name}: {each.note}" for each in line.readings if each.note):
            yield ""
            yield note
    yield ""
    yield "## How to read it"
    yield ""
    yield HOW_TO_READ
    yield "## Settings and rounds"
    yield ""
    yield "The fastest setting of each contestant in short trials was taken for the rounds."
    yield ""
    yield from _table(
        (
            "contestant",
            "taken",
            "trials (messages/s)",
            "messages a round",
            "rates",
            "sandbox µs/msg",
            "other work, cores",
        ),
        [_rounds_row(each) for each in by_rate(outcome.standings)],
    )
    yield ""
    yield "## Machine"
    yield ""
    yield from _machine(outcome)


def _goals(outcome: Outcome) -> Iterator[str]:
    readings = list(race_readings(outcome.standings))
    if readings:
        yield ""
        yield "## Goals of the race"
        yield ""
        yield from _table(READING_HEAD, reading_rows(readings))


def _rounds_row(standing: Standing) -> Row:
    return (
        standing.title,
        standing.setting,
        ", ".join(f"{trial.setting}: {trial.rate:,.0f}" for trial in standing.trials),
        f"{standing.rounds[0].messages:,}",
        ", ".join(f"{each.rate:,.0f}" for each in standing.rounds),
        between(standing.sandbox_micros),
        f"{standing.elsewhere_cores:.2f}",
    )


def _machine(outcome: Outcome) -> Iterator[str]:
    machine = outcome.machine
    yield f"- {machine.cores} cores of {machine.processor}, {machine.memory_gib:g} GiB of memory"
    yield f"- {machine.kernel}"
    yield f"- {machine.python}" + (f", Node {machine.node}" if machine.node else ", no Node")
    yield f"- {', '.join(outcome.versions)}"


def _table(head: Row, rows: Sequence[Row]) -> Iterator[str]:
    yield _row(head)
    yield _row(tuple("---" if column == 0 else "---:" for column in range(len(head))))
    yield from (_row(row) for row in rows)


def _row(cells: Row) -> str:
    return f"| {' | '.join(cells)} |"
