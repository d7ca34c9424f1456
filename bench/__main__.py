"""Compare Tocsin with what people use instead: `python -m bench`."""

import argparse
import asyncio
import contextlib
import datetime as dt
import shlex
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from bench import broker
from bench.contestants import CONTESTANTS
from bench.contract import Chart, Contestant, Line, Reading
from bench.goals import SUBJECT
from bench.lines import BROADCAST_PEOPLE, GROWTH_ROWS, OUTAGE_SECONDS, STEADY_SECONDS, lines
from bench.process import ROOT, ProgramFailedError
from bench.progress import tell
from bench.race import machine
from bench.race.run import run_race
from bench.race.stage import LATENCY_MS, MessagesAstrayError, Stage, open_stage
from bench.race.standing import Standing
from bench.report import console, page, plot
from bench.report.outcome import LeftOut, LineResult, Outcome

FOLDER = ROOT / "bench"
PLOT = "results.svg"
LONGER_RUNS = FOLDER / "longer_runs.md"
"""Results of runs that take an hour, which a whole run does not repeat."""


class Options(msgspec.Struct, frozen=True):
    """What was asked for on the command line."""

    messages: int
    rounds: int
    seconds: float
    outage_seconds: float
    growth_rows: int
    broadcast_people: int
    steady_seconds: float
    only: tuple[str, ...]
    json: bool
    keep_logs: Path | None


def parse(arguments: Sequence[str]) -> Options:
    """Read the command line."""
    names = [*(each.name for each in CONTESTANTS), *(each.name for each in lines())]
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "--messages", type=_positive, default=150_000, help="most messages a round (default: %(default)s)"
    )
    parser.add_argument(
        "--seconds", type=float, default=6.0, help="how long a round should last (default: %(default)s)"
    )
    parser.add_argument(
        "--outage-seconds",
        type=float,
        default=OUTAGE_SECONDS,
        help="how long a provider is down in the line `outage` (default: %(default)s)",
    )
    parser.add_argument(
        "--growth-rows",
        type=_positive,
        default=GROWTH_ROWS,
        help="most rows that wait in the line `growth`, beside three times as many settled ones "
        "(default: %(default)s; 10000000 takes half an hour and 45 GB)",
    )
    parser.add_argument(
        "--broadcast-people",
        type=_positive,
        default=BROADCAST_PEOPLE,
        help="how many people the line `broadcast` sends to (default: %(default)s)",
    )
    parser.add_argument(
        "--steady-seconds",
        type=float,
        default=STEADY_SECONDS,
        help="how long the line `steady` sends (default: %(default)s; 1200 is the size to publish)",
    )
    parser.add_argument(
        "--rounds", type=_positive, default=5, help="rounds for each contestant (default: %(default)s)"
    )
    parser.add_argument(
        "--only",
        action="append",
        choices=names,
        default=[],
        metavar="NAME",
        help=f"run this contestant or line only, may be repeated: {', '.join(names)}; writes to bench/out",
    )
    parser.add_argument("--json", action="store_true", help="print the outcome as JSON")
    parser.add_argument(
        "--keep-logs", type=Path, metavar="FOLDER", help="keep the contestants' logs in this folder"
    )
    return msgspec.convert(vars(parser.parse_args(arguments)), Options)


async def run(options: Options, command: str, workdir: Path) -> Outcome:
    """Run the contestants and the lines that were asked for."""
    chosen = [each for each in CONTESTANTS if not options.only or each.name in options.only]
    every = lines(
        options.outage_seconds, options.growth_rows, options.broadcast_people, options.steady_seconds
    )
    asked = [each for each in every if not options.only or each.name in options.only]
    able, left_out = _able(chosen)
    for absent in left_out:
        tell(f"Left out: {absent.title}: {absent.reason}")
    async with open_stage(workdir, options.messages) as stage:
        standings: list[Standing] = []
        if able:
            standings = await run_race(
                able,
                stage,
                rounds=options.rounds,
                seconds=options.seconds,
                most=options.messages,
                tell=tell,
            )
        measured = [await _measure_line(line, stage) for line in asked]
    return Outcome(
        date=dt.datetime.now(dt.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        command=command,
        machine=machine.describe(),
        versions=_versions(able),
        latency_ms=LATENCY_MS,
        standings=tuple(standings),
        left_out=tuple(left_out),
        lines=tuple(measured),
    )


def write(outcome: Outcome, folder: Path) -> None:
    """Write the page and its pictures."""
    folder.mkdir(exist_ok=True)
    if outcome.standings:
        plot.draw(outcome.standings, SUBJECT, folder / PLOT)
    for chart in (each for line in outcome.lines for each in line.charts):
        plot.draw_chart(chart, folder / page.picture(chart))
    longer = f"\n{LONGER_RUNS.read_text()}" if folder == FOLDER else ""
    (folder / "RESULTS.md").write_text(page.results_page(outcome, PLOT) + longer)
    tell(f"Written: {(folder / 'RESULTS.md').relative_to(ROOT)} and its pictures beside it")


async def _measure_line(line: Line, stage: Stage) -> LineResult:
    await stage.clear()
    measured = await line.measure(stage.arena(line.name))
    readings = tuple(each for each in measured if isinstance(each, Reading))
    for each in readings:
        tell(f"line       {each.name}: {each.value:,.2f} {each.unit}")
    charts = tuple(each for each in measured if isinstance(each, Chart))
    return LineResult(name=line.name, title=line.title, readings=readings, charts=charts)


def _able(chosen: Sequence[Contestant]) -> tuple[list[Contestant], list[LeftOut]]:
    reasons = {each.name: each.absent() for each in chosen}
    return (
        [each for each in chosen if reasons[each.name] is None],
        [
            LeftOut(title=each.title, reason=reason)
            for each in chosen
            if (reason := reasons[each.name]) is not None
        ],
    )


def _versions(able: Sequence[Contestant]) -> tuple[str, ...]:
    named = [name for each in able for name in each.versions()]
    return tuple(dict.fromkeys((*named, broker.version())))


@contextlib.contextmanager
def _workdir(kept: Path | None) -> Iterator[Path]:
    if kept is None:
        with tempfile.TemporaryDirectory(prefix="tocsin-bench-") as scratch:
            yield Path(scratch)
    else:
        # A folder of its own for each run, so that one run's words are not mistaken for another's.
        kept.mkdir(parents=True, exist_ok=True)
        yield Path(tempfile.mkdtemp(prefix="run-", dir=kept.resolve()))


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not at least 1")
    return number


def main() -> None:
    """Run, print and write."""
    options = parse(sys.argv[1:])
    command = shlex.join(["python", "-m", "bench", *sys.argv[1:]])
    try:
        with _workdir(options.keep_logs) as workdir:
            outcome = asyncio.run(run(options, command, workdir))
    except (MessagesAstrayError, ProgramFailedError) as fault:
        raise SystemExit(f"The run has failed: {fault}") from fault
    except KeyboardInterrupt:
        raise SystemExit("Stopped; nothing was written.") from None
    print(
        msgspec.json.format(msgspec.json.encode(outcome)).decode()
        if options.json
        else console.console(outcome)
    )
    # A partial run must not replace the page of a whole one.
    write(outcome, FOLDER / "out" if options.only else FOLDER)


if __name__ == "__main__":
    main()
