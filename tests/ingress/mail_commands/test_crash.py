"""A mailer as a process: probes, metrics, `kill -9` in the middle of its work, and a stop."""

import signal
from collections import defaultdict
from pathlib import Path

import asyncpg
import httpx

from tests.acceptance.processes import Process, Processes, processes_in
from tests.ingress.mail_commands.commands import command
from tests.ingress.mail_commands.conftest import Post
from tests.waiting import found, until
from tocsin.sandbox import Latency

COMMANDS = 40


async def started(post: Post, processes: Processes) -> tuple[Process, dict[str, str]]:
    process = await processes.start("mailer", environment=post.environment)
    await process.logged("mailer started", stream="mail:delivery_commands")
    addresses = {each: (await process.logged(f"{each} started"))["address"] for each in ("probes", "metrics")}
    return process, addresses


async def test_a_mailer_killed_at_work_sends_every_command(post: Post, tmp_path: Path) -> None:
    post.environment |= {
        "TOCSIN_SCHEMA": "mailer",
        "TOCSIN_PROBES__PORT": "0",
        "TOCSIN_METRICS__PORT": "0",
        "TOCSIN_SMTP__CONNECTIONS": "5",
        "TOCSIN_MAILER__BATCH": "7",
        "TOCSIN_MAILER__LEASE_SECONDS": "3",
    }
    assert (await post.tocsin("migrate")).code == 0
    post.sandbox.faults_of("smtp").latency(Latency(0.02))
    for number in range(COMMANDS - 1):
        await post.append(command(str(number), {"to": [f"{number}@example.com"]}))
    async with processes_in(tmp_path) as processes:
        first, _ = await started(post, processes)
        await until(lambda: post.sandbox.phones.count >= COMMANDS // 4)
        await first.kill()
        connection = await asyncpg.connect(post.environment["TOCSIN_DATABASE_URL"])
        # As if the time of its leases had passed.
        await connection.execute("update mailer.deliveries set leased_until = now() where lease is not null")
        await connection.execute("update mailer.stream_offsets set leased_until = now()")

        second, addresses = await started(post, processes)
        # The first one may have read all of the others.
        await post.append(command("last", {"to": ["last@example.com"]}))
        async with httpx.AsyncClient() as http:
            ready = await http.get(f"{addresses['probes']}/readyz")
            await until(lambda: post.sandbox.stats("smtp").distinct_deliveries == COMMANDS)

            async def settled() -> bool:
                statement = "select count(*) from mailer.deliveries where state = 'sent'"
                sent: int = await connection.fetchval(statement)
                return sent == COMMANDS

            await found(settled)
            measured = (await http.get(f"{addresses['metrics']}/metrics")).text
        await connection.close()
        second.signal(signal.SIGTERM)
        assert await second.end() == 0

    by_command = defaultdict(set)
    for mail in await post.mails(COMMANDS):
        by_command[mail["headers"]["X-Delivery-Id"]].add(mail["headers"]["Message-ID"])
    assert len(by_command) == COMMANDS
    # A mail that was sent again can be recognised.
    assert all(len(message_ids) == 1 for message_ids in by_command.values())
    assert ready.json()["status"] == "ready"
    assert 'tocsin_stream_entries_total{stream="mailer"}' in measured
