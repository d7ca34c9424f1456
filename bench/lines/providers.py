"""What a message costs by each provider: `send` alone, in a process of its own."""

import asyncio
import sys
from asyncio.subprocess import PIPE
from collections.abc import Mapping, Sequence
from statistics import median

import msgspec

from bench.contract import Arena, Goal, Reading
from bench.controls import Controls
from bench.goals import APNS_TIMES_FCM, EMAIL_CPU_MICROS, EXPO_CPU_MICROS, WEBPUSH_CPU_MICROS
from bench.process import ROOT, ProgramFailedError
from bench.programs.provider_sender import ProviderCost, ProviderName, ProviderOrder
from bench.progress import tell
from bench.race.stage import MessagesAstrayError

ROUNDS = 5
BROWSERS = 500


class Load(msgspec.Struct, frozen=True):
    """How much one provider is given, so that every round lasts a few seconds."""

    title: str
    count: int
    warm_up: int
    concurrency: int


LOADS: Mapping[ProviderName, Load] = {
    "fcm": Load("FCM", 8_000, 1_500, 400),
    "apns": Load("APNs", 8_000, 1_500, 400),
    "expo": Load("Expo", 30_000, 5_000, 1_000),
    "webpush": Load("Web Push", 5_000, 1_000, 400),
    "smtp": Load("e-mail", 1_500, 200, 40),
    "webhook": Load("webhook", 8_000, 1_500, 400),
}


CPU_GOALS: Mapping[ProviderName, Goal] = {
    "expo": EXPO_CPU_MICROS,
    "webpush": WEBPUSH_CPU_MICROS,
    "smtp": EMAIL_CPU_MICROS,
}


class Providers:
    name = "providers"
    title = "Providers"

    async def measure(self, arena: Arena) -> Sequence[Reading]:
        controls = Controls(arena.control_url)
        places = {
            "webpush": tuple([await _subscription(controls, number) for number in range(BROWSERS)]),
            "webhook": tuple(f"{arena.url}/webhook/{number}" for number in range(LOADS["webhook"].count)),
        }
        costs: dict[ProviderName, list[ProviderCost]] = {provider: [] for provider in LOADS}
        for number in range(ROUNDS):
            # There and back again, so that nobody always comes right after the same other.
            for provider in list(LOADS)[:: -1 if number % 2 else 1]:
                await controls.reset()
                cost = await _round(arena, provider, places.get(provider, ()))
                await _see_that_all_came(controls, provider)
                costs[provider].append(cost)
                tell(
                    f"providers  round {number + 1}/{ROUNDS} {provider:8} "
                    f"{_micros(provider, cost):6.1f} µs, {LOADS[provider].count / cost.seconds:6,.0f} /s"
                )
        return tuple(_readings(costs))


def _readings(costs: Mapping[ProviderName, Sequence[ProviderCost]]) -> Sequence[Reading]:
    micros = {provider: [_micros(provider, cost) for cost in rounds] for provider, rounds in costs.items()}
    # Each round is compared within itself: what slowed the machine down slowed both.
    times = {
        provider: [one / fcm for one, fcm in zip(each, micros["fcm"], strict=True)]
        for provider, each in micros.items()
    }
    return [
        *(
            Reading(
                f"{LOADS[provider].title}: CPU a message",
                median(each),
                "µs",
                CPU_GOALS.get(provider),
                note=f"{_between(each)}; {median(times[provider]):.2f} times FCM",
            )
            for provider, each in micros.items()
        ),
        Reading(
            "APNs against FCM",
            median(times["apns"]),
            "times",
            APNS_TIMES_FCM,
            note=_between(times["apns"]),
        ),
        *(
            Reading(
                f"{LOADS[provider].title}: rate of one process",
                median(LOADS[provider].count / cost.seconds for cost in rounds),
                "/s",
            )
            for provider, rounds in costs.items()
        ),
    ]


def _micros(provider: ProviderName, cost: ProviderCost) -> float:
    return cost.cpu_seconds / LOADS[provider].count * 1e6


def _between(values: Sequence[float]) -> str:
    return f"{min(values):,.2f} to {max(values):,.2f} in {len(values)} rounds"


async def _see_that_all_came(controls: Controls, provider: ProviderName) -> None:
    due = LOADS[provider].count + LOADS[provider].warm_up
    stats = await controls.stats(provider)
    if (stats.delivered, stats.distinct_deliveries) != (due, due):
        raise MessagesAstrayError(
            f"{provider}: {stats.delivered} messages with {stats.distinct_deliveries} different ids "
            f"arrived where {due} were due; answers: {stats.answers}"
        )


async def _subscription(controls: Controls, number: int) -> str:
    return (await controls.call("POST", f"browsers/bench-{number}")).decode()


async def _round(arena: Arena, provider: ProviderName, places: tuple[str, ...]) -> ProviderCost:
    load = LOADS[provider]
    order = ProviderOrder(
        arena=arena,
        provider=provider,
        count=load.count,
        warm_up=load.warm_up,
        concurrency=load.concurrency,
        places=places,
    )
    log = arena.workdir / f"{provider}.log"
    with log.open("ab") as words:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "bench.programs.provider_sender"),
            cwd=ROOT,
            stdin=PIPE,
            stdout=PIPE,
            stderr=words,
        )
        output, _ = await process.communicate(msgspec.json.encode(order, enc_hook=str))
    if process.returncode:
        last_words = log.read_text(errors="replace")[-2000:]
        raise ProgramFailedError(f"sending by {provider} failed; it wrote:\n{last_words}")
    return msgspec.json.decode(output, type=ProviderCost)
