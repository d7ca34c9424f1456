"""Appends intents to a stream of Redis at a steady pace, a batch for each line of its input."""

import asyncio
import os
import sys
import time
from urllib.parse import urlsplit

import msgspec

from bench.contract import Batch
from tocsin.providers.redis_streams.commands import XAdd
from tocsin.wire.streams.intents import DEFAULT_STREAM

EVERY_SECONDS = 0.02
PEOPLE = 2_000

_decoder = msgspec.json.Decoder(Batch)


def fields(serial: int, number: int) -> dict[bytes, bytes]:
    """Build an intent that makes a push and a mail."""
    return {
        b"notification_type": b"game.turn.ready",
        b"producer": b"game_master",
        b"audience_kind": b"user",
        b"recipient_user_ids_json": b'["user-%d"]' % (number % PEOPLE),
        b"idempotency_key": b"%d-%d" % (serial, number),
        b"occurred_at_ms": b"%d" % int(time.time() * 1_000),
        b"payload_json": b'{"game_id":"game-%d","game_name":"Andromeda","turn_number":%d}' % (number, number),
    }


class Stream:
    """Appends with as little of the machine as it can: what it takes, those it measures have not."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._command = XAdd(DEFAULT_STREAM)

    async def append(self, batch: Batch, rate: float) -> None:
        """Append a batch, each moment as many as the pace allows."""
        began, sent = time.perf_counter(), 0
        while sent < batch.count:
            due = min(batch.count, int((time.perf_counter() - began) * rate) + 1)
            if due > sent:
                entries = (fields(batch.serial, number) for number in range(sent, due))
                self._writer.write(b"".join(map(self._command.pack, entries)))
                for _ in range(due - sent):
                    await self._answer()
                sent = due
            await asyncio.sleep(EVERY_SECONDS)

    async def _answer(self) -> None:
        """Read the id of an entry: its length, then itself."""
        head = await self._reader.readline()
        if not head.startswith(b"$"):
            raise RuntimeError(f"Redis answered {head!r}")
        await self._reader.readline()


async def main() -> None:
    """Answer each batch with a line once all of it is on the stream."""
    redis = urlsplit(os.environ["BENCH_REDIS"])
    reader, writer = await asyncio.open_connection(redis.hostname, redis.port)
    stream = Stream(reader, writer)
    rate = float(os.environ["BENCH_RATE"])
    print("ok", flush=True)
    for line in sys.stdin:
        await stream.append(_decoder.decode(line), rate)
        print("ok", flush=True)
    writer.close()


if __name__ == "__main__":
    asyncio.run(main())
