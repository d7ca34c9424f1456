"""Kills the processes of the galaxy system and restarts its Redis under load, and counts what is lost.

The exit code is 1 if an intent did not end in exactly one notification, one client event and one mail command
for each of its slots, and one mail for each command.
"""

import argparse
import asyncio
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import uvloop
from redis.asyncio import Redis

from tests.soak.galaxy.load import Figures, Load
from tests.soak.galaxy.site import MAILER_SCHEMA, SERVICE_SCHEMA, fetch, open_site
from tocsin.cli.output import console
from tocsin.logs import LogSettings, configure_logs
from tocsin.sandbox import Sandbox

LONGEST_DRAIN = 180.0
LISTENERS = 5
EVENTS, COMMANDS = "gateway:client-events", "mail:delivery_commands"
# The service is several processes, of which any may be hit.
TARGETS = ("service", "service", "service", "mailer", "gateway", "redis")


async def soak(folder: Path, seconds: float, seed: int, rate: float) -> int:
    """Run the system under load, kill what the seed says, then compare; return the exit code."""
    figures = Figures()
    chance = random.Random(f"{seed} chaos")  # noqa: S311 - repeatable
    _say(f"seed {seed}: {seconds:.0f} s at {rate:g} intents a second")
    async with open_site(folder) as (programs, urls, sandbox):
        load = Load(urls["redis"], urls["gateway"], seed, figures)
        listening = [asyncio.create_task(load.listen(f"player-{user}")) for user in range(LISTENERS)]
        appending = asyncio.create_task(load.append(rate, seconds))
        while not appending.done():
            await asyncio.sleep(chance.uniform(0.5, 3))
            target = chance.choice(TARGETS)
            if next(each for each in programs if each.name == target).kill(chance):
                figures.kills[target] += 1
        await appending
        began = time.monotonic()
        while True:
            await asyncio.sleep(1)
            figures.wrong.clear()
            await _compare(urls, load, sandbox, figures)
            if not figures.wrong or time.monotonic() - began > LONGEST_DRAIN:
                break
        for each in listening:
            each.cancel()
        await asyncio.gather(*listening, return_exceptions=True)
    _print(figures, time.monotonic() - began)
    _say(f"seed {seed}: {'FAILED' if figures.wrong else 'passed'}")
    return 1 if figures.wrong else 0


async def _compare(urls: Mapping[str, str], load: Load, sandbox: Sandbox, figures: Figures) -> None:
    """Compare what was appended with what came out; list what is wrong."""
    async with Redis.from_url(urls["redis"]) as redis:
        events = await _ids(redis, EVENTS, b"event_id")
        commands = await _ids(redis, COMMANDS, b"delivery_id")
    rows = await fetch(
        urls["database"], SERVICE_SCHEMA, "select idempotency_key, external_id from notifications"
    )
    by_key: dict[str, list[str]] = {}
    for row in rows:
        by_key.setdefault(row["idempotency_key"], []).append(row["external_id"])
    wrong, wanted = figures.wrong, {"event": set[str](), "command": set[str]()}
    for intent in load.intents:
        found = by_key.get(intent.key, [])
        if len(found) != 1:
            wrong.append(f"{intent.key} has {len(found)} notifications")
        for entry_id in found:
            wanted["event"] |= {f"{entry_id}/{each}" for each in intent.events}
            wanted["command"] |= {f"{entry_id}/{each}" for each in intent.commands}
    for name, found_ids in (("event", events), ("command", commands)):
        wrong += [f"{name} {each} is missing" for each in wanted[name] - found_ids.keys()]
        wrong += [f"{name} {each} was asked for by nobody" for each in found_ids.keys() - wanted[name]]
        figures.repeated[name] = found_ids.total() - len(found_ids)
    sent = await fetch(
        urls["database"],
        MAILER_SCHEMA,
        "select delivery.id::text, delivery.state, notification.reference from notifications as notification "
        "join deliveries as delivery on delivery.notification_id = notification.id",
    )
    arrived = Counter(each.delivery_id for each in sandbox.phones.messages(after=0, limit=10**9))
    references = Counter(row["reference"] for row in sent)
    wrong += [f"{each} has {references[each]} mails" for each in commands if references[each] != 1]
    wrong += [f"mail {row['id']} is {row['state']}" for row in sent if row["state"] != "sent"]
    wrong += [f"mail {row['id']} did not arrive" for row in sent if not arrived[row["id"]]]
    for user, seen in load.seen.items():
        own = {each for each in wanted["event"] if each.endswith(f":{user}")}
        wrong += [f"{user} did not see {each}" for each in own - seen]
    figures.intents, figures.events, figures.commands = len(load.intents), len(events), len(commands)
    figures.mails = len(sent)
    figures.repeated["mail"] = arrived.total() - len(arrived)
    figures.seen_live = sum(map(len, load.seen.values()))


async def _ids(redis: Any, stream: str, field: bytes) -> Counter[str]:
    return Counter(fields[field].decode() for _, fields in await redis.xrange(stream))


def _print(figures: Figures, drained_in: float) -> None:
    shown = {
        "intents": f"{figures.intents}, of which {figures.appends_repeated} appends were repeated",
        "events": f"{figures.events}, and {figures.repeated['event']} repeated",
        "commands": f"{figures.commands}, and {figures.repeated['command']} repeated",
        "mails": f"{figures.mails}, and {figures.repeated['mail']} repeated",
        "seen live": f"{figures.seen_live} by {LISTENERS} sessions",
        "kills": ", ".join(f"{name} {count}" for name, count in sorted(figures.kills.items())),
        "wrong": len(figures.wrong),
        "drained in": f"{drained_in:.0f} s",
    }
    for name, figure in shown.items():
        _say(f"  {name:12} {figure}")
    for example in figures.wrong[:10]:
        _say(f"  ! {example}")


def _say(line: str) -> None:
    console.print(line, markup=False, highlight=False, soft_wrap=True)


def main() -> None:
    """Read the arguments and run."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak.galaxy", description=__doc__)
    parser.add_argument("--seconds", type=float, default=120.0, help="how long processes are killed")
    parser.add_argument("--seed", type=int, help="repeats an earlier soak; a new one unless given")
    parser.add_argument("--rate", type=float, default=50.0, help="intents a second")
    parser.add_argument("--logs", type=Path, help="keep the logs of the processes in this folder")
    given = parser.parse_args()
    configure_logs(LogSettings(level="warning"))
    seed = random.SystemRandom().randrange(10**6) if given.seed is None else given.seed
    with tempfile.TemporaryDirectory(prefix="tocsin-soak-") as temporary:
        folder = given.logs or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        sys.exit(uvloop.run(soak(folder, given.seconds, seed, given.rate)))


if __name__ == "__main__":
    main()
