"""A dump, restored on an empty server: deliveries go on, and what is sent again is known beforehand."""

import signal
from collections import Counter
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import asyncpg

from tests.acceptance.figures import Figure
from tests.acceptance.installation import Installation
from tests.acceptance.operating.backups import documented, run_documented
from tests.acceptance.postgres import mortal_folder
from tests.waiting import found
from tocsin.domain.ids import LeaseId
from tocsin.engine.clock import utc_now
from tocsin.store.deliveries.claim import START, claim
from tocsin.store.embedded import EmbeddedPostgres


async def test_after_a_restore_deliveries_go_on_and_those_sent_since_the_dump_are_sent_again(
    installation: Installation, tmp_path: Path, figure: Figure
) -> None:
    producer = await installation.start_api()
    await producer.register_many(4)
    worker = await installation.start_worker()
    before = await producer.notify("user-0")
    await installation.until_sent(1)
    worker.signal(signal.SIGSTOP)
    leased = await producer.notify("user-1")
    async with installation.pool.acquire() as connection:
        now = utc_now()
        lease, until = LeaseId(uuid4()), now + timedelta(seconds=1)
        claimed = await claim(connection, "fcm", lease=lease, now=now, until=until, after=START, limit=1)
        assert len(claimed) == 1
    waiting = await producer.notify("user-2")
    later = await producer.notify("user-3", send_at=(utc_now() + timedelta(hours=1)).isoformat())

    run_documented("pg_dump", installation.environment["TOCSIN_DATABASE_URL"], tmp_path)
    after = await producer.notify("user-0")
    worker.signal(signal.SIGCONT)
    await installation.until_sent(4)
    await worker.kill()

    with mortal_folder() as folder:
        server = EmbeddedPostgres(folder)
        url = server.start()
        run_documented("pg_restore", url, tmp_path)
        restored = await asyncpg.connect(url)
        at_most_again = await restored.fetchval(documented("select count"))
        await installation.start("worker", TOCSIN_DATABASE_URL=url)

        async def states() -> dict[str, str] | None:
            rows = await restored.fetch("select notification_id::text, state from tocsin.deliveries")
            seen = {row["notification_id"]: row["state"] for row in rows}
            return seen if Counter(seen.values())["sent"] == 3 else None

        ended = await found(states, within=60)
        sent_again = {leased, waiting}
        assert ended == {before: "sent", leased: "sent", waiting: "sent", later: "scheduled"}
        assert at_most_again == len(sent_again)
        deliveries = await restored.fetch("select id::text, notification_id::text from tocsin.deliveries")
        await restored.close()
        await installation.processes.close()
        server.stop()

    arrived = Counter(
        message.delivery_id for message in installation.sandbox.phones.messages(after=0, limit=100)
    )
    arrivals = {notification: arrived.pop(delivery, 0) for delivery, notification in deliveries}
    assert arrivals == {before: 1, leased: 2, waiting: 2, later: 0}
    # Accepted after the dump: the restored server does not know it, and it had arrived.
    assert after not in ended
    assert list(arrived.values()) == [1]
    figure("sent again after a restore, of those sent since the dump and still in it", len(sent_again))
