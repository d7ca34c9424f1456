"""Run contestants in turn against one sandbox and take their measure."""

import itertools
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from operator import itemgetter
from statistics import mean

import msgspec

from bench.contract import Batch, Contestant, Engine
from bench.meter import cpu_seconds, machine_seconds, peak_memory
from bench.race.stage import Stage
from bench.race.standing import QUIET_CORES, Round, Standing

FIRST_WARM_UP = 250
WARM_UP_SECONDS = 1.0
TRIAL_SECONDS = 2.5
TRIALS = 2
"""How often each setting is tried, in turns: the machine may be slow during one."""
FEWEST = 500

Progress = Callable[[str], None]


def fitting(rate: float, seconds: float, most: int) -> int:
    """Choose how many messages keep a contestant of this rate busy for about so long."""
    return min(most, max(FEWEST, round(rate * seconds)))


def turns(names: Sequence[str], rounds: int) -> Iterator[tuple[int, str]]:
    """Order the rounds A B C A B C, so that a slow minute of the machine does not hit one alone."""
    return itertools.product(range(rounds), names)


async def run_race(
    contestants: Sequence[Contestant], stage: Stage, *, rounds: int, seconds: float, most: int, tell: Progress
) -> list[Standing]:
    """Choose each contestant's best setting in short trials, then measure them in turns."""
    trials = {each.name: await _trials(each, stage, most, tell) for each in contestants}
    best = {name: _fastest(tried) for name, tried in trials.items()}
    measured: Mapping[str, list[Round]] = {each.name: [] for each in contestants}
    by_name = {each.name: each for each in contestants}
    for number, name in turns(list(by_name), rounds):
        setting, rate = best[name]
        taken = await _measure(by_name[name], setting, stage, seconds, most, rate)
        tell(f"round {number + 1}/{rounds}  {_line(by_name[name], taken)}")
        measured[name].append(taken)
    peaks: dict[str, int] = {}
    for name, (setting, rate) in best.items():
        peaks[name] = await _memory(by_name[name], setting, stage, fitting(rate, seconds, most))
        tell(f"memory     {name:<17}{setting:<24}{peaks[name] / 1e6:>8,.0f} MB")
    return [
        Standing(
            name=each.name,
            title=each.title,
            setting=best[each.name][0],
            rounds=tuple(measured[each.name]),
            trials=tuple(trials[each.name]),
            peak_bytes=peaks[each.name],
        )
        for each in contestants
    ]


async def _trials(contestant: Contestant, stage: Stage, most: int, tell: Progress) -> list[Round]:
    taken = []
    for _, setting in turns(contestant.settings, TRIALS):
        trial = await _measure(contestant, setting, stage, TRIAL_SECONDS, most)
        tell(f"trial      {_line(contestant, trial)}")
        taken.append(trial)
    return taken


def _fastest(trials: Iterable[Round]) -> tuple[str, float]:
    """Return the setting that was fastest in its trials together, and its rate."""
    rates: dict[str, list[float]] = {}
    for trial in trials:
        rates.setdefault(trial.setting, []).append(trial.rate)
    return max(((setting, mean(tried)) for setting, tried in rates.items()), key=itemgetter(1))


async def _measure(
    contestant: Contestant, setting: str, stage: Stage, seconds: float, most: int, rate: float | None = None
) -> Round:
    async with _warmed_up(contestant, setting, stage, most) as (engine, serial, warm_rate):
        count = fitting(rate or warm_rate, seconds, most)
        before = _costs(engine, stage)
        elapsed = await _timed(engine, stage, Batch(serial=serial, count=count))
        cost = _costs(engine, stage) - before
    return Round(
        setting=setting,
        messages=count,
        seconds=elapsed,
        cpu_seconds=cost.own,
        sandbox_cpu_seconds=cost.sandbox,
        elsewhere_cpu_seconds=cost.machine - cost.own - cost.sandbox - cost.runner,
    )


async def _memory(contestant: Contestant, setting: str, stage: Stage, count: int) -> int:
    """Return the highest memory in a round that is not timed: to read it takes time from whoever is measured.

    How much depends on the contestant: the kernel walks every page that processes share, once for each.
    """
    async with _warmed_up(contestant, setting, stage, count) as (engine, serial, _):
        async with peak_memory(engine.roots) as peak:
            await _timed(engine, stage, Batch(serial=serial, count=count))
        return peak.bytes


@asynccontextmanager
async def _warmed_up(
    contestant: Contestant, setting: str, stage: Stage, most: int
) -> AsyncIterator[tuple[Engine, int, float]]:
    """Start a contestant and warm it up; yield it with the serial of its next batch and its rate by then."""
    serials = itertools.count(1)
    async with contestant.started(stage.arena(contestant.name), setting) as engine:
        rate = await _warm_up(engine, stage, serials, most)
        yield engine, next(serials), rate


class _Costs(msgspec.Struct, frozen=True):
    own: float
    sandbox: float
    runner: float
    machine: float

    def __sub__(self, earlier: "_Costs") -> "_Costs":
        return _Costs(
            own=self.own - earlier.own,
            sandbox=self.sandbox - earlier.sandbox,
            runner=self.runner - earlier.runner,
            machine=self.machine - earlier.machine,
        )


def _costs(engine: Engine, stage: Stage) -> _Costs:
    return _Costs(
        own=cpu_seconds(engine.roots),
        sandbox=stage.cpu_seconds(),
        runner=time.process_time(),
        machine=machine_seconds(),
    )


async def _warm_up(engine: Engine, stage: Stage, serials: Iterator[int], most: int) -> float:
    """Double the batches until connections are open and code is compiled, and give the last one's rate."""
    count = min(FIRST_WARM_UP, most)
    # The first batch also waits for workers that are still coming up, so it says nothing of the rate.
    await _timed(engine, stage, Batch(serial=next(serials), count=count))
    warm_from = time.perf_counter()
    while True:
        count = min(2 * count, most)
        seconds = await _timed(engine, stage, Batch(serial=next(serials), count=count))
        if time.perf_counter() - warm_from >= WARM_UP_SECONDS:
            return count / seconds


async def _timed(engine: Engine, stage: Stage, batch: Batch) -> float:
    await stage.clear()
    begun = time.perf_counter()
    await engine.deliver(batch)
    await stage.answered(batch.count)
    return time.perf_counter() - begun


def _line(contestant: Contestant, taken: Round) -> str:
    words = f"{contestant.name:<17}{taken.setting:<24}{taken.rate:>8,.0f}/s {taken.cpu_micros:>7,.0f} µs"
    if taken.elsewhere_cores > QUIET_CORES:
        words += f"  (machine busy: {taken.elsewhere_cores:.1f} cores)"
    return words
