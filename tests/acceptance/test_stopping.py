"""Stopping by a signal, in the middle of work and twice."""

import signal
from pathlib import Path

from tests.acceptance.installation import Installation
from tests.acceptance.postgres import mortal_folder, postmaster
from tests.acceptance.processes import free_port, processes_in
from tests.waiting import until
from tocsin.sandbox import Hang, Latency

CONCURRENCY = 200
PEOPLE = 50
TIMES = 40


async def test_a_worker_told_to_stop_finishes_what_is_under_way(installation: Installation) -> None:
    sandbox = installation.sandbox
    sandbox.faults.latency(Latency(1.5))
    producer = await installation.start_api()
    phones = await producer.register_many(PEOPLE)
    worker = await installation.start_worker(TOCSIN_FCM__MAX_CONCURRENCY=str(CONCURRENCY))

    await producer.notify_many(list(phones), TIMES)
    await until(lambda: sandbox.stats().in_flight == CONCURRENCY)
    worker.signal(signal.SIGTERM)
    code = await worker.end()

    sent = await installation.deliveries("state = 'sent'")
    stats = sandbox.stats()
    assert code == 0, worker.log
    assert stats.in_flight == 0
    assert sent == stats.delivered == stats.distinct_deliveries
    # A claim that was under way when the signal came is sent too, and no other.
    assert CONCURRENCY <= sent <= 2 * CONCURRENCY
    assert await installation.deliveries("lease is not null or leased_until is not null") == 0
    assert await installation.deliveries("state = 'pending' and attempts = 0") == PEOPLE * TIMES - sent


async def test_a_second_signal_ends_it_at_once(installation: Installation) -> None:
    sandbox = installation.sandbox
    producer = await installation.start_api()
    await producer.register("ada", "phone-of-ada")
    sandbox.faults.script("phone-of-ada", Hang())
    worker = await installation.start_worker(
        TOCSIN_FCM__TIMEOUT="60", TOCSIN_DISPATCH__LEASE_SECONDS="200", TOCSIN_DISPATCH__STOP_SECONDS="60"
    )
    await producer.notify("ada")
    await until(lambda: sandbox.stats().in_flight == 1)

    worker.signal(signal.SIGTERM)
    await worker.logged("worker stopping")
    assert not worker.ended
    worker.signal(signal.SIGTERM)

    assert await worker.end(within=5) == 128 + signal.SIGTERM
    assert await installation.deliveries("lease is not null") == 1


async def test_what_does_not_end_in_time_is_left_to_its_lease(installation: Installation) -> None:
    sandbox = installation.sandbox
    producer = await installation.start_api()
    await producer.register("ada", "phone-of-ada")
    sandbox.faults.script("phone-of-ada", Hang())
    worker = await installation.start_worker(
        TOCSIN_FCM__TIMEOUT="60", TOCSIN_DISPATCH__LEASE_SECONDS="200", TOCSIN_DISPATCH__STOP_SECONDS="0.5"
    )
    await producer.notify("ada")
    await until(lambda: sandbox.stats().in_flight == 1)

    worker.signal(signal.SIGTERM)

    assert await worker.end(within=10) == 0, worker.log
    await worker.logged("worker stopped early")
    assert not [line for line in worker.log if "Traceback" in line or "never retrieved" in line]
    assert await installation.deliveries("lease is not null") == 1


async def test_a_server_told_to_stop_takes_everything_down(tmp_path: Path) -> None:
    with mortal_folder() as data_dir:
        environment = {"TOCSIN_DATA_DIR": str(data_dir), "TOCSIN_HTTP__PORT": str(free_port())}
        async with processes_in(tmp_path) as processes:
            server = await processes.start("serve", environment=environment)
            await server.logged("api started")
            server.signal(signal.SIGINT)

            assert await server.end() == 0, server.log
        assert postmaster(data_dir) is None
