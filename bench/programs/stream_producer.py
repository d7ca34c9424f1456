"""Appends intents to a stream of Redis at a steady pace, a batch for each line of its input."""

import asyncio
import os
import sys
import time
from typing import Any

import msgspec
from redis.asyncio import Redis

from bench.contract import Batch
from tocsin.wire.stream_entries import DEFAULT_STREAM

EVERY_SECONDS = 0.02
PEOPLE = 2_000

_decoder = msgspec.json.Decoder(Batch)


def fields(serial: int, number: int) -> dict[str, str]:
    """Build an intent that makes a push and a mail."""
    return {
        "notification_type": "game.turn.ready",
        "producer": "game_master",
        "audience_kind": "user",
        "recipient_user_ids_json": f'["user-{number % PEOPLE}"]',
        "idempotency_key": f"{serial}-{number}",
        "occurred_at_ms": str(int(time.time() * 1_000)),
        "payload_json": f'{{"game_id":"game-{number}","game_name":"Andromeda","turn_number":{number}}}',
    }


async def append(redis: Any, batch: Batch, rate: float) -> None:
    """Append a batch, each moment as many as the pace allows."""
    began, sent = time.perf_counter(), 0
    while sent < batch.count:
        due = min(batch.count, int((time.perf_counter() - began) * rate) + 1)
        if due > sent:
            pipeline = redis.pipeline(transaction=False)
            for number in range(sent, due):
                pipeline.xadd(DEFAULT_STREAM, fields(batch.serial, number))
            await pipeline.execute()
            sent = due
        await asyncio.sleep(EVERY_SECONDS)


async def main() -> None:
    """Answer each batch with a line once all of it is on the stream."""
    redis = Redis.from_url(os.environ["BENCH_REDIS"])
    rate = float(os.environ["BENCH_RATE"])
    print("ok", flush=True)
    for line in sys.stdin:
        await append(redis, _decoder.decode(line), rate)
        print("ok", flush=True)
    await redis.aclose()


if __name__ == "__main__":
    asyncio.run(main())
