"""Several workers on one database: they share the work, and none does another's again."""

from collections import Counter
from pathlib import Path

import pytest

from tests.acceptance.figures import Figure
from tests.acceptance.installation import Installation
from tocsin.sandbox import Latency

PEOPLE = 50
TIMES = 80
ALL = PEOPLE * TIMES


@pytest.mark.parametrize("workers", [2, 4])
async def test_workers_share_what_is_due(
    installation: Installation, tmp_path: Path, figure: Figure, workers: int
) -> None:
    # Each worker sends as a Firebase project of its own, so that every message names its worker.
    sandbox = installation.sandbox
    sandbox.faults.latency(Latency(0.05))
    names = [f"worker-{number}" for number in range(workers)]
    accounts = [sandbox.write_service_account(tmp_path / f"{name}.json", name) for name in names]
    await installation.start_workers(
        *(
            {"TOCSIN_FCM__CREDENTIALS_FILE": str(account), "TOCSIN_FCM__MAX_CONCURRENCY": "100"}
            for account in accounts
        )
    )
    producer = await installation.start_api()
    phones = await producer.register_many(PEOPLE)

    await producer.notify_many(list(phones), TIMES)
    await installation.until_sent(ALL)

    shares = Counter[str]()
    for name, count in await installation.pool.fetch(
        "select split_part(provider_message_id, '/', 2), count(*) from deliveries group by 1"
    ):
        shares[name] = count
    figure(f"shares of {workers} workers", dict(sorted(shares.items())))
    assert sorted(shares) == names
    assert min(shares.values()) >= ALL / workers / 3
    stats = sandbox.stats()
    assert (stats.delivered, stats.distinct_deliveries, stats.duplicates) == (ALL, ALL, 0)
