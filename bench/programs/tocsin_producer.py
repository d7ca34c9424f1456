"""Hands batches to Tocsin over HTTP, 500 intents a request, a few requests at a time."""

import asyncio
import os
import sys

import msgspec
import uvloop
from pyreqwest.client import Client, ClientBuilder

from bench.contract import Batch

INTENTS_A_REQUEST = 500
REQUESTS_AT_ONCE = 3


async def _post(client: Client, batch: Batch, first: int, limit: asyncio.Semaphore) -> None:
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
    body = msgspec.json.encode({"notifications": intents})
    async with limit:
        response = (
            await client.post("/v1/notifications/batch")
            .bearer_auth(os.environ["BENCH_KEY"])
            .header("content-type", "application/json")
            .body_bytes(body)
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
    limit = asyncio.Semaphore(REQUESTS_AT_ONCE)
    async with ClientBuilder().base_url(os.environ["BENCH_API"]).error_for_status(True).build() as client:
        print("ok", flush=True)
        while line := await reader.readline():
            batch = msgspec.json.decode(line, type=Batch)
            async with asyncio.TaskGroup() as group:
                for first in range(0, batch.count, INTENTS_A_REQUEST):
                    group.create_task(_post(client, batch, first, limit))
            print("ok", flush=True)


if __name__ == "__main__":
    uvloop.run(main())
