"""Put one Celery task per message on the queue, over one broker connection."""

import sys

import msgspec

from bench.contract import Batch
from bench.programs.celery_app import app, send


def main() -> None:
    """Answer each batch with `ok` once all of it is on the queue."""
    with app.producer_pool.acquire(block=True) as producer:
        print("ok", flush=True)
        for line in sys.stdin:
            batch = msgspec.json.decode(line, type=Batch)
            for number in range(batch.count):
                send.apply_async((number,), producer=producer)
            print("ok", flush=True)


if __name__ == "__main__":
    main()
