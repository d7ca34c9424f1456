"""Runs the soak and prints its counts; the exit code is 1 if something was lost, skipped or sent wrongly."""

import argparse
import asyncio
import logging
import random
import sys
import tempfile
import time
from pathlib import Path

import uvloop

from tests.soak.chaos import Event, schedule, wreak
from tests.soak.load import Load, add_people, hostile_hosts
from tests.soak.site import Site, open_site
from tests.soak.verdict import Delivery, Verdict, judge, read_deliveries, unpublished, unsettled
from tocsin.cli.output import console
from tocsin.logs import LogSettings, configure_logs
from tocsin.store.pool import DATABASE_FAULTS

LONGEST_DRAIN = 300.0


def main() -> None:
    """Read the arguments and run."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--seconds", type=float, default=300.0, help="how long parts are killed and cut off")
    parser.add_argument("--seed", type=int, help="repeats an earlier soak; a new one unless given")
    parser.add_argument("--rate", type=float, default=40.0, help="intents a second")
    parser.add_argument("--logs", type=Path, help="keep the logs of the processes in this folder")
    given = parser.parse_args()
    configure_logs(LogSettings(level="warning"))
    # A worker that is killed breaks its sessions with the mail server.
    logging.getLogger("mail.log").setLevel(logging.CRITICAL)
    seed = random.SystemRandom().randrange(10**6) if given.seed is None else given.seed
    with tempfile.TemporaryDirectory(prefix="tocsin-soak-") as temporary:
        folder = given.logs or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        sys.exit(uvloop.run(soak(folder, given.seconds, seed, given.rate)))


async def soak(folder: Path, seconds: float, seed: int, rate: float) -> int:
    """Run the site under load and under the events of the seed, then judge; return the exit code."""
    events = schedule(seed, seconds)
    _announce(events, seconds, seed, rate)
    async with open_site(folder) as site, hostile_hosts() as hosts:
        await add_people(site, hosts, limited=int(seconds * rate / 20) + 10)
        site.start(seed=seed)
        await site.ready()
        load = Load(site, seed=seed, rate=rate)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(wreak(site, events, time.monotonic()))
            tasks.create_task(load.run(seconds))
        before = await site.right_clocks()
        began = time.monotonic()
        deliveries, written = await _drained(site)
        drained_in = time.monotonic() - began
        verdict = judge(site, load, deliveries, written)
        exits = {
            each.name: each.ended_by_itself for each in (*before, *site.programs) if each.ended_by_itself
        }
    _print(verdict, site, load, exits, drained_in)
    _say(f"seed {seed}: {'passed' if verdict.passed else 'FAILED'}")
    return 0 if verdict.passed else 1


async def _drained(site: Site) -> tuple[list[Delivery], int]:
    """Wait until everything is settled, or the time for that is over; return the deliveries."""
    deadline = time.monotonic() + LONGEST_DRAIN
    while True:
        await asyncio.sleep(1)
        try:
            written, waiting = await unpublished(site)
            deliveries = await read_deliveries(site)
        except DATABASE_FAULTS:
            continue
        if not (waiting or unsettled(deliveries)) or time.monotonic() > deadline:
            return deliveries, written


def _announce(events: list[Event], seconds: float, seed: int, rate: float) -> None:
    outages = [event.seconds for event in events if event.target == "database"]
    lengths = ", ".join(f"{each:.0f}" for each in outages)
    _say(f"seed {seed}: {seconds:.0f} s at {rate:g} intents/s, {len(events) - len(outages)} kills,")
    _say(f"{len(outages)} outages of the database of {lengths} s; then up to {LONGEST_DRAIN:.0f} s to drain")


def _print(verdict: Verdict, site: Site, load: Load, exits: dict[str, list[int]], drained_in: float) -> None:
    explained = verdict.duplicates - verdict.unexplained_duplicates
    figures = {
        "accepted": verdict.accepted,
        "sent": verdict.sent,
        "lost": verdict.lost,
        "wrongly skipped": verdict.wrongly_skipped,
        "wrongly ended": verdict.wrongly_ended,
        "duplicate": f"{verdict.duplicates}, of which {explained} taken before a kill and not settled",
        "poisonous": f"{verdict.poisonous}, of which {verdict.poison_not_rejected} not rejected alone",
        "to hostile hosts": dict(verdict.hostile),
        "refused by the API": len(load.refused),
        "answers": dict(load.answers),
        "kills": len(site.kills),
        "outages": len(site.outages),
        "ended by themselves": exits or "none",
        "drained in": f"{drained_in:.0f} s",
    }
    for name, figure in figures.items():
        _say(f"  {name:20} {figure}")
    for example in (*verdict.examples, *load.refused[:5]):
        _say(f"  ! {example}")


def _say(line: str) -> None:
    console.print(line, markup=False, highlight=False, soft_wrap=True)


if __name__ == "__main__":
    main()
