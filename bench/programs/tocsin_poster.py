"""Posts single notifications over many connections and says how many a second were answered 202."""

import asyncio
import os
import sys
import time

import uvloop
from pyreqwest.client import ClientBuilder

BODY = (
    b'{"type":"new_customer","audience":{"users":["user-%d"]},'
    b'"payload":{"customer_name":"Customer"},"idempotency_key":"single-%d"}'
)


async def main(connections: int, seconds: float) -> None:
    numbers = iter(range(1_000_000_000))
    answered = 0
    started = time.perf_counter()
    ends = started + seconds

    async def post_on_one_connection() -> None:
        nonlocal answered
        builder = ClientBuilder().base_url(os.environ["BENCH_API"]).http1_only().error_for_status(True)
        async with builder.build() as client:
            while time.perf_counter() < ends:
                number = next(numbers)
                response = (
                    await client.post("/v1/notifications")
                    .bearer_auth(os.environ["BENCH_KEY"])
                    .header("content-type", "application/json")
                    .body_bytes(BODY % (number % 1000, number))
                    .build()
                    .send()
                )
                await response.bytes()
                assert response.status == 202
                answered += 1

    async with asyncio.TaskGroup() as group:
        for _ in range(connections):
            group.create_task(post_on_one_connection())
    print(answered / (time.perf_counter() - started))


if __name__ == "__main__":
    uvloop.run(main(int(sys.argv[1]), float(sys.argv[2])))
