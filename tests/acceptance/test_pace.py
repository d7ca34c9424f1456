"""Several workers keep to one rate together."""

import signal
from collections.abc import Iterator, Sequence
from datetime import datetime

import msgspec

from tests.acceptance.figures import Figure
from tests.acceptance.installation import Installation
from tests.acceptance.processes import Process

RATE = 600
SECONDS = 8
WORKERS = 4


async def test_four_workers_keep_to_the_rate_of_one_project(
    installation: Installation, figure: Figure
) -> None:
    installation.environment |= {
        "TOCSIN_EXPO__ENABLED": "true",
        "TOCSIN_EXPO__BASE_URL": installation.sandbox.https_url,
        "TOCSIN_EXPO__CA_FILE": str(installation.sandbox.ca_file),
        "TOCSIN_RATES__EXPO": str(RATE),
    }
    producer = await installation.start_api()
    people = [f"user-{number}" for number in range(100)]
    for person in people:
        await producer.register(person, f"ExponentPushToken[{person}]", provider="expo")
    times = RATE * SECONDS // len(people)
    await producer.notify_many(people, times)

    debug = {"TOCSIN_LOG__LEVEL": "debug"}
    workers = await installation.start_workers(*(debug for _ in range(WORKERS)))
    await installation.until_sent(times * len(people))

    for worker in workers:
        worker.signal(signal.SIGTERM)
        await worker.end()
    sent = sorted(batch for worker in workers for batch in _batches(worker))
    most = max(_within_a_second(sent))
    average = sum(count for _, count in sent[:-1]) / (sent[-1][0] - sent[0][0])
    stats = installation.sandbox.stats("expo")
    figure(
        f"messages a second of {WORKERS} workers at {RATE}/s",
        {
            "most sent in any second": most,
            "most that arrived in any second": stats.most_messages_in_a_second,
            "average": round(average),
        },
    )
    assert (stats.delivered, stats.duplicates) == (times * len(people), 0)
    assert sum(count for _, count in sent) == stats.delivered
    assert most <= RATE
    assert average >= RATE * 0.8


def _batches(worker: Process) -> Iterator[tuple[float, int]]:
    """List when a worker sent how many messages: they may arrive closer together than they left."""
    for line in worker.log:
        entry = msgspec.json.decode(line)
        if entry["event"] == "rate-limit slot used":
            yield datetime.fromisoformat(entry["timestamp"]).timestamp(), entry["messages"]


def _within_a_second(sent: Sequence[tuple[float, int]]) -> Iterator[int]:
    """Count what was sent within the second that begins with each batch."""
    for begin, _ in sent:
        yield sum(count for at, count in sent if begin <= at < begin + 1)
