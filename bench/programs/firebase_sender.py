"""Send batches with `messaging.send_each_async`: 500 messages a call, `argv[1]` calls at a time."""

import asyncio
import sys

import msgspec
from firebase_admin import messaging

from bench.contract import Batch
from bench.programs.firebase import connect, message

CALL = 500


async def _send(batch: Batch, at_a_time: int) -> None:
    starts = iter(range(0, batch.count, CALL))

    async def work() -> None:
        for start in starts:
            messages = [message(number) for number in range(start, min(start + CALL, batch.count))]
            response = await messaging.send_each_async(messages)
            failed = [each.exception for each in response.responses if not each.success]
            if failed:
                raise failed[0]

    async with asyncio.TaskGroup() as calls:
        for _ in range(at_a_time):
            calls.create_task(work())


async def main() -> None:
    """Answer each batch with `ok` once every message in it was taken."""
    connect()
    loop = asyncio.get_running_loop()
    print("ok", flush=True)
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        await _send(msgspec.json.decode(line, type=Batch), int(sys.argv[1]))
        print("ok", flush=True)


if __name__ == "__main__":
    asyncio.run(main())
