"""Hands batches to Tocsin over HTTP, 500 intents a request, a few requests at a time."""

import asyncio
import os
import sys
from collections.abc import Iterator

import msgspec
import uvloop
from pyreqwest.client import Client, ClientBuilder

from bench.contract import Batch

INTENTS_A_REQUEST = 500
REQUESTS_AT_ONCE = 3


def _body(batch: Batch, first: int) -> bytes:
    numbers = range(first, min(first + INTENTS_A_REQUEST, batch.count))
    intents = [
        {
            "type": "new_customer",
            "audience": {"users": [f"user-{number}"]},
            "payload": {"customer_name": f"Customer {number}"},
            "idempotency_key": f"{batch.serial}-{number}",
        }
        for number in numbers
    ]
    return msgspec.json.encode({"notifications": intents})


async def _post_some(client: Client, batch: Batch, starts: Iterator[int]) -> None:
    """Post requests one after another; each is made when it is its turn, not all before the first is sent."""
    for first in starts:
        response = (
            await client.post("/v1/notifications/batch")
            .bearer_auth(os.environ["BENCH_KEY"])
            .header("content-type", "application/json")
            .body_bytes(_body(batch, first))
            .build()
            .send()
        )
        answer = await response.json()
        assert all(result["status"] == "accepted" for result in answer["results"]), answer


async def main() -> None:
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )
    async with ClientBuilder().base_url(os.environ["BENCH_API"]).error_for_status(True).build() as client:
        print("ok", flush=True)
        while line := await reader.readline():
            batch = msgspec.json.decode(line, type=Batch)
            async with asyncio.TaskGroup() as group:
                starts = iter(range(0, batch.count, INTENTS_A_REQUEST))
                for _ in range(REQUESTS_AT_ONCE):
                    group.create_task(_post_some(client, batch, starts))
            print("ok", flush=True)


if __name__ == "__main__":
    uvloop.run(main())
