"""What happens to the site, and when: drawn from the seed before anything runs, so it can be replayed."""

import asyncio
import math
import random
import time

import msgspec

from tests.soak.site import Site

LONGEST_OUTAGE = 90.0
MOST_AWAY = 0.3
"""No outage begins once the database was away for this share of the time."""
_TARGETS = ("worker-1", "worker-2", "worker-1", "worker-2", "api", "relay")


class Event(msgspec.Struct, frozen=True):
    """A kill of a process, or an outage of the database, some seconds after the start."""

    at: float
    target: str
    seconds: float = 0.0


def schedule(seed: int, seconds: float) -> list[Event]:
    """Return the events of a soak in their order; there is at least one outage."""
    chance = random.Random(f"{seed} chaos")  # noqa: S311 - repeatable
    events = [Event(seconds * chance.uniform(0.2, 0.4), "database", _outage(chance, seconds))]
    at = 4.0
    while (at := at + chance.uniform(1, 8)) < seconds - 2:
        away = sum(event.seconds for event in events)
        if chance.random() < 0.12 and away < seconds * MOST_AWAY:
            events.append(Event(at, "database", _outage(chance, seconds)))
        else:
            events.append(Event(at, chance.choice(_TARGETS)))
    return sorted(events, key=lambda event: event.at)


def _outage(chance: random.Random, seconds: float) -> float:
    """Return a length from 1 to 90 s, short ones as often as long ones; a short soak has no long one."""
    return math.exp(chance.uniform(0, math.log(min(LONGEST_OUTAGE, max(seconds / 3, 2)))))


async def wreak(site: Site, events: list[Event], started: float) -> None:
    """Carry out the events; an outage that begins during another follows it."""
    database = asyncio.Lock()

    async def cut(seconds: float) -> None:
        async with database:
            await site.cut_database(seconds)

    async with asyncio.TaskGroup() as outages:
        for event in events:
            await asyncio.sleep(max(0.0, started + event.at - time.monotonic()))
            if event.target == "database":
                outages.create_task(cut(event.seconds))
            else:
                site.kill(event.target)
