"""The relay as a process that reads a queue."""

import signal
from pathlib import Path

from tests.acceptance.processes import processes_in
from tests.ingress.sqs.conftest import Queue, intent

MESSAGES = 60


async def test_a_relay_killed_at_work_accepts_every_message_once(
    queue: Queue, database_url: str, tmp_path: Path
) -> None:
    environment = {
        **queue.server.environ,
        "TOCSIN_DATABASE_URL": database_url,
        "TOCSIN_QUEUES__SHOP__URL": queue.url,
        "TOCSIN_QUEUES__SHOP__RECEIVERS": "1",
        "TOCSIN_QUEUES__SHOP__VISIBILITY_SECONDS": "10",
        "TOCSIN_LOG__FORMAT": "json",
    }
    for number in range(MESSAGES):
        queue.send(intent(str(number)))
    async with processes_in(tmp_path) as processes:
        first = await processes.start("relay", environment=environment)
        started = await first.logged("relay started")
        await queue.reaches(10)
        await first.kill()
        second = await processes.start("relay", environment=environment)
        await queue.empties()
        second.signal(signal.SIGTERM)
        assert await second.end() == 0

    assert started["queues"] == ["shop"]
    assert sorted(await queue.keys(), key=int) == [str(number) for number in range(MESSAGES)]
    assert not await queue.refused()
