"""The line between a supervisor and its child, over which the child reports its metrics."""

import asyncio
import itertools
import socket
import subprocess
import sys
from collections.abc import Iterator
from typing import ClassVar

import pytest
import structlog

from tests.waiting import LONGEST_WAIT, until
from tocsin.cli.run import metrics as child_metrics
from tocsin.cli.run import supervisor
from tocsin.cli.run.supervisor import Child
from tocsin.telemetry import metrics
from tocsin.telemetry.instruments import Labels, Value
from tocsin.telemetry.samples import Samples, TreeSamples, decode_samples

KIND = ("leaver",)
LOST = "tocsin_leases_lost_total"
SETTLED = "tocsin_deliveries_settled_total"
# It reports once and dies; what it started lives on and has its standard input.
DIES = """
import os, subprocess, sys
os.write(0, b'{"tocsin_leases_lost_total":[[[],7]]}\\n')
left = subprocess.Popen(["sleep", "60"], stdout=subprocess.DEVNULL, start_new_session=True)
print(left.pid, flush=True)
os._exit(3)
"""
# Its second report cannot be read, nor those that follow it up to the last but one.
STAMMERS = """
import os, sys
for report in (
    b'{"tocsin_leases_lost_total":[[[],1]]}',
    b'{"tocsin_leases_lost_total":[[[null],2]]}',
    b'not JSON',
    b'{"tocsin_provider_call_seconds":[[["fcm"],[1,2]]]}',
    b'x' * 1_000,
    b'{"tocsin_leases_lost_total":[[[],7]]}',
    b'{"tocsin_leases_lost_total":',
):
    os.write(0, report + b"\\n")
sys.stdin.read()
"""


class Scripted(Child):
    """A child that runs the script of its first argument."""

    async def _start(self) -> tuple[asyncio.subprocess.Process, socket.socket]:
        line, of_child = socket.socketpair()
        with of_child:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-ISc", self.arguments[0], stdin=of_child.fileno()
            )
        return process, line


class Unsummed(TreeSamples):
    """Samples that cannot be added up."""

    def end(self, process_id: int) -> None:
        raise TypeError(process_id)


class Leaver(Child):
    """A child that leaves a process of its own behind, which keeps the line open."""

    left: ClassVar[list[int]] = []

    async def _start(self) -> tuple[asyncio.subprocess.Process, socket.socket]:
        line, of_child = socket.socketpair()
        with of_child:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-c", DIES, stdin=of_child.fileno(), stdout=subprocess.PIPE
            )
        assert process.stdout is not None
        self.left.append(int(await process.stdout.readline()))
        return process, line


@pytest.fixture
def leaver() -> Iterator[Leaver]:
    yield Leaver("leaver-1", [], {})
    for pid in Leaver.left:
        subprocess.run(["kill", str(pid)], check=False)


async def test_a_child_is_restarted_though_another_process_has_its_line(leaver: Leaver) -> None:
    stop, samples = asyncio.Event(), TreeSamples(own=dict)
    running = asyncio.create_task(leaver.run(stop, 5, samples=samples))

    await until(lambda: metrics.restarts.read().get(KIND) == 1)

    assert samples.read() == {"tocsin_leases_lost_total": {(): 7}}
    assert metrics.processes.read()[KIND] == 0
    stop.set()
    await running


async def test_a_report_that_cannot_be_read_is_skipped_and_the_next_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(supervisor, "LONGEST_REPORT", 200)
    stop, samples = asyncio.Event(), TreeSamples(own=dict)
    with structlog.testing.capture_logs() as lines:
        running = asyncio.create_task(Scripted("stammerer", [STAMMERS], {}).run(stop, 5, samples=samples))

        await until(lambda: samples.read() == {LOST: {(): 7}} and len(lines) == 2)

        assert not running.done()
        stop.set()
        await running
    assert samples.read() == {LOST: {(): 7}}
    assert [line["event"] for line in lines] == ["metrics report skipped"] * 2


async def test_metrics_that_cannot_be_added_up_do_not_keep_a_child_from_its_restart() -> None:
    stop = asyncio.Event()
    child = Scripted("unsummed", ["raise SystemExit(3)"], {})
    with structlog.testing.capture_logs() as lines:
        running = asyncio.create_task(child.run(stop, 5, samples=Unsummed(own=dict)))

        await until(lambda: running.done() or metrics.restarts.read().get(("unsummed",)) == 1)

        stop.set()
        await running
    assert [line["event"] for line in lines] == ["metrics reports lost", "process died"]


async def test_a_report_under_way_at_the_end_is_finished_before_the_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # More than fits into the buffers of a socket.
    many: dict[Labels, Value] = {
        (f"type-{number}", "push", "fcm", "sent", ""): 1.0 for number in range(50_000)
    }
    numbers = itertools.count(1)

    def read_samples() -> Samples:
        return {LOST: {(): next(numbers)}, SETTLED: dict(many)}

    line, of_child = socket.socketpair()
    line.setblocking(False)
    monkeypatch.setattr(sys, "stdin", of_child)
    monkeypatch.setattr(child_metrics, "read_samples", read_samples)
    monkeypatch.setattr(child_metrics, "LAST_SECONDS", LONGEST_WAIT)
    received, loop = bytearray(), asyncio.get_running_loop()

    async def report() -> None:
        async with child_metrics._reported():
            received.extend(await loop.sock_recv(line, 1))

    with line:
        with of_child:
            reporting = asyncio.create_task(report())
            await until(lambda: bool(received))
            receiving = asyncio.create_task(_receive(line, received))
            await reporting
        await receiving

    assert [decode_samples(bytes(each))[LOST] for each in received.splitlines()] == [{(): 1}, {(): 2}]


async def _receive(line: socket.socket, received: bytearray) -> None:
    while chunk := await asyncio.get_running_loop().sock_recv(line, 65_536):
        received.extend(chunk)
