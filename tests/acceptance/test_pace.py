"""Several workers keep to one rate together."""

from tests.acceptance.figures import Figure
from tests.acceptance.installation import Installation

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

    await installation.start_workers(*({} for _ in range(WORKERS)))
    await installation.until_sent(times * len(people))

    stats = installation.sandbox.stats("expo")
    counts = [each.count for each in stats.messages_per_second]
    whole = counts[1:-1]
    figure(
        f"messages a second of {WORKERS} workers at {RATE}/s",
        {
            "most in a calendar second": max(counts),
            "most in any second": stats.most_messages_in_a_second,
            "average": round(sum(whole) / len(whole)),
        },
    )
    assert (stats.delivered, stats.duplicates) == (times * len(people), 0)
    assert max(counts) <= RATE
    assert sum(whole) / len(whole) >= RATE * 0.8
