"""Posts notifications by a schedule, whether or not earlier ones were answered.

The arrivals are a Poisson process. Each message carries its scheduled time in its idempotency key, so that
its latency counts from there: a slow answer delays no later message, and a late post counts as latency.
"""

import asyncio
import os
import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Literal

import msgspec
import uvloop
from pyreqwest.client import Client, ClientBuilder

MOST_A_REQUEST = 500


class Load(msgspec.Struct, frozen=True):
    """Messages at an average rate, for some seconds.

    Those scheduled within `collect_seconds` share a request; 0 makes each a request of its own. `serial` is
    the first part of their idempotency keys, and `first` the number of the first user.
    """

    serial: int
    rate: float
    seconds: float
    collect_seconds: float
    first: int
    users: int
    type: Literal["new_customer", "message"] = "new_customer"


def arrivals(load: Load) -> Iterator[float]:
    """Schedule messages by chance, in seconds from the start; the same in every run."""
    chance, at = random.Random(f"{load.serial} {load.type}"), 0.0
    while (at := at + chance.expovariate(load.rate)) < load.seconds:
        yield at


def collected(times: Iterator[float], seconds: float) -> Iterator[list[float]]:
    """Group times into requests, each complete when its last message is due."""
    group: list[float] = []
    for at in times:
        if group and (at - group[0] > seconds or len(group) == MOST_A_REQUEST):
            yield group
            group = []
        group.append(at)
    if group:
        yield group


def intents(load: Load, first: int, scheduled: Sequence[float]) -> list[dict[str, object]]:
    """Write one intent for each time."""
    return [
        {
            "type": load.type,
            "audience": {"users": [f"user-{number % load.users}"]},
            "payload": payload(load, number),
            "idempotency_key": f"{load.serial}-{number}-{round(1e6 * at)}",
        }
        for number, at in enumerate(scheduled, first)
    ]


def payload(load: Load, number: int) -> dict[str, str]:
    """Return the payload of message `number`."""
    match load.type:
        case "new_customer":
            return {"customer_name": f"Customer {number}"}
        case "message":
            return {"title": f"Order {number}", "body": "It is on its way."}


async def _post(client: Client, made: Sequence[dict[str, object]]) -> None:
    alone = len(made) == 1
    path = "/v1/notifications" if alone else "/v1/notifications/batch"
    response = (
        await client.post(path)
        .bearer_auth(os.environ["BENCH_KEY"])
        .header("content-type", "application/json")
        .body_bytes(msgspec.json.encode(made[0] if alone else {"notifications": made}))
        .build()
        .send()
    )
    answer = await response.json()
    assert alone or all(result["status"] == "accepted" for result in answer["results"]), answer


def _pace(load: Load, post: Callable[[list[dict[str, object]]], None]) -> None:
    """Call `post` when the last message of each request is due."""
    began, number = time.time() + 0.1, load.first
    for group in collected(arrivals(load), load.collect_seconds):
        made = intents(load, number, [began + at for at in group])
        number += len(group)
        # The timers of an event loop are a millisecond coarse; this sleep is not.
        time.sleep(max(0.0, began + group[-1] - time.time()))
        post(made)


async def _send(client: Client, load: Load) -> None:
    loop = asyncio.get_running_loop()
    async with asyncio.TaskGroup() as group:

        def post(made: list[dict[str, object]]) -> None:
            loop.call_soon_threadsafe(lambda: group.create_task(_post(client, made)))

        await asyncio.to_thread(_pace, load, post)


async def main() -> None:
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )
    async with ClientBuilder().base_url(os.environ["BENCH_API"]).error_for_status(True).build() as client:
        print("ok", flush=True)
        while line := await reader.readline():
            await _send(client, msgspec.json.decode(line, type=Load))
            print("ok", flush=True)


if __name__ == "__main__":
    uvloop.run(main())
