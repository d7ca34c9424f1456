"""Stopping by a signal, in the middle of work and twice."""

import contextlib
import os
import signal
from pathlib import Path

import psutil
import pytest

from tests.acceptance.installation import Installation
from tests.acceptance.postgres import mortal_folder, postmaster, postmasters
from tests.acceptance.processes import Process, free_port, processes_in
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
    answered = sandbox.stats().delivered - CONCURRENCY
    worker.signal(signal.SIGTERM)
    code = await worker.end()

    sent = await installation.deliveries("state = 'sent'")
    stats = sandbox.stats()
    assert code == 0, worker.log
    assert stats.in_flight == 0
    assert sent == stats.delivered == stats.distinct_deliveries
    # A claim that was under way when the signal came is sent too, and no other.
    assert CONCURRENCY <= sent - answered <= 2 * CONCURRENCY
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

    assert await _ended_by_more_signals(worker) == 128 + signal.SIGTERM
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


async def test_a_signal_that_is_passed_on_counts_once(installation: Installation) -> None:
    sandbox = installation.sandbox
    producer = await installation.start_api()
    await producer.register("ada", "phone-of-ada")
    sandbox.faults.latency(Latency(1.0))
    worker = await installation.start_worker()
    await producer.notify("ada")
    await until(lambda: sandbox.stats().in_flight == 1)

    for _ in range(3):
        worker.signal(signal.SIGTERM)

    assert await worker.end() == 0, worker.log
    assert await installation.deliveries("state = 'sent'") == 1


@pytest.mark.parametrize("command", ["serve", "demo"])
async def test_a_signal_that_arrives_twice_leaves_no_database(tmp_path: Path, command: str) -> None:
    with mortal_folder() as folder:
        environment = {**quiet(folder), "TMPDIR": str(folder)}
        async with processes_in(tmp_path) as processes:
            process = await processes.start(command, environment=environment)
            await until(lambda: bool(postmasters(folder)), within=60)
            process.signal(signal.SIGTERM)
            process.signal(signal.SIGTERM)

            assert await process.end(within=60) == 0, process.log
        assert postmasters(folder) == []


async def test_a_migration_that_is_interrupted_leaves_no_database(tmp_path: Path) -> None:
    with mortal_folder() as folder:
        async with processes_in(tmp_path) as processes:
            process = await processes.start("migrate", environment=quiet(folder))
            await until(lambda: bool(postmasters(folder)), within=60)
            process.signal(signal.SIGTERM)

            code = await process.end(within=60)
        said = "\n".join(process.output + process.log)
        # It may have been done already.
        assert (code, "interrupted" in said) in {(2, True), (0, False)}, said
        assert "Traceback" not in said
        assert postmasters(folder) == []


async def test_a_second_signal_ends_a_server_at_once_and_leaves_nothing(tmp_path: Path) -> None:
    """The worker's send hangs, so that stopping would last as long as the grace period."""
    with mortal_folder() as folder:
        environment = quiet(folder)
        async with processes_in(tmp_path) as processes:
            server = await processes.start("serve", environment=environment)
            await server.logged("api started")
            children = psutil.Process(server.pid).children(recursive=True)
            for child in children:
                child.suspend()
            server.signal(signal.SIGTERM)
            await server.logged("stop requested")

            assert await _ended_by_more_signals(server) == 128 + signal.SIGTERM
        assert postmasters(folder) == []
        assert not psutil.wait_procs(children, timeout=5)[1]


async def test_a_server_killed_with_its_tree_is_cleared_by_the_next_one(tmp_path: Path) -> None:
    with mortal_folder() as folder:
        async with processes_in(tmp_path) as processes:
            first = await processes.start("serve", environment=quiet(folder))
            await first.logged("api started")
            await _kill_tree(first)
            [left] = postmasters(folder)

            second = await processes.start("serve", environment=quiet(folder))
            await second.logged("api started")
            assert postmasters(folder) == [left]
            second.signal(signal.SIGTERM)

            assert await second.end() == 0, second.log
        assert postmasters(folder) == []


async def test_a_demo_killed_with_its_tree_is_cleared_by_the_next_one(tmp_path: Path) -> None:
    with mortal_folder() as folder:
        environment = {"TMPDIR": str(folder), "TOCSIN_HTTP__PORT": str(free_port())}
        async with processes_in(tmp_path) as processes:
            first = await processes.start("demo", environment=environment)
            await first.said("Ctrl-C stops everything.", within=60)
            [abandoned] = postmasters(folder)
            running = await processes.start("demo", environment=environment)
            await running.said("Ctrl-C stops everything.", within=60)
            await _kill_tree(first)
            assert len(postmasters(folder)) == 2

            second = await processes.start("demo", "--once", environment=environment)

            assert await second.end(within=60) == 0, second.log
            [left] = postmasters(folder)
            assert left != abandoned
            running.signal(signal.SIGTERM)
            assert await running.end() == 0
        assert list(folder.glob("tocsin-demo-*")) == []


async def test_a_demo_removes_no_folder_and_no_file_of_others(tmp_path: Path) -> None:
    with mortal_folder() as folder:
        environment = {"TMPDIR": str(folder), "TOCSIN_HTTP__PORT": str(free_port())}
        kept, output = folder / "tocsin-demo-kept", folder / "tocsin-demo-output.log"
        output.touch()
        async with processes_in(tmp_path) as processes:
            for options in (["--data-dir", str(kept)], []):
                demo = await processes.start("demo", "--once", *options, environment=environment)
                assert await demo.end(within=60) == 0, demo.log

        assert (kept / "postgres" / "PG_VERSION").exists()
        assert sorted(folder.glob("tocsin-demo-*")) == [kept, output]


@pytest.mark.parametrize("command", ["serve", "demo"])
async def test_children_of_a_killed_parent_stop_its_database(tmp_path: Path, command: str) -> None:
    with mortal_folder() as folder:
        environment = {**quiet(folder), "TMPDIR": str(folder)}
        async with processes_in(tmp_path) as processes:
            first = await processes.start(command, environment=environment)
            await _started(first, command)
            assert len(postmasters(folder)) == 1
            psutil.Process(first.pid).kill()
            await first.end()

            await until(lambda: not postmasters(folder), within=60)

            second = await processes.start(command, environment=environment)
            await _started(second, command)
            assert len(postmasters(folder)) == 1
            second.signal(signal.SIGTERM)
            assert await second.end(within=60) == 0, second.log
        assert postmasters(folder) == []
        assert list(folder.glob("tocsin-demo-*")) == []


async def test_a_database_that_another_process_uses_outlives_a_killed_parent(tmp_path: Path) -> None:
    with mortal_folder() as folder:
        async with processes_in(tmp_path) as processes:
            first, second = [await processes.start("serve", environment=quiet(folder)) for _ in range(2)]
            for each in (first, second):
                await each.logged("api started")
            [postgres] = postmasters(folder)
            children = psutil.Process(first.pid).children(recursive=True)
            psutil.Process(first.pid).kill()
            await first.end()
            assert not psutil.wait_procs(children, timeout=30)[1]

            assert postmasters(folder) == [postgres]
            second.signal(signal.SIGTERM)
            assert await second.end() == 0, second.log
        assert postmasters(folder) == []


async def test_a_server_told_to_stop_takes_everything_down(tmp_path: Path) -> None:
    with mortal_folder() as data_dir:
        environment = {"TOCSIN_DATA_DIR": str(data_dir), "TOCSIN_HTTP__PORT": str(free_port())}
        async with processes_in(tmp_path) as processes:
            server = await processes.start("serve", environment=environment)
            await server.logged("api started")
            server.signal(signal.SIGINT)

            assert await server.end() == 0, server.log
        assert postmaster(data_dir) is None


def quiet(folder: Path) -> dict[str, str]:
    return {"TOCSIN_DATA_DIR": str(folder), "TOCSIN_HTTP__PORT": str(free_port())}


async def _started(process: Process, command: str) -> None:
    if command == "demo":
        await process.said("Ctrl-C stops everything.", within=60)
    else:
        await process.logged("api started")


async def _ended_by_more_signals(process: Process) -> int:
    """Send the signal again and again until the process has ended, and give its exit code."""

    def signalled() -> bool:
        # Unlike `Process.signal`, it does not reap a process that has just ended.
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGTERM)
        return process.ended

    await until(signalled, within=10)
    return await process.end()


async def _kill_tree(process: Process) -> None:
    """Kill a process and all below it, as the out-of-memory killer or `kill -9` does."""
    below = psutil.Process(process.pid).children(recursive=True)
    for each in (psutil.Process(process.pid), *below):
        with contextlib.suppress(psutil.NoSuchProcess):
            each.kill()
    await process.end()
