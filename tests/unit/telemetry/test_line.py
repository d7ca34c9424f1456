"""The line between a supervisor and its child, over which the child reports its metrics."""

import asyncio
import socket
import subprocess
import sys
from collections.abc import Iterator
from typing import ClassVar

import pytest

from tests.waiting import until
from tocsin.cli.run.supervisor import Child
from tocsin.telemetry import metrics
from tocsin.telemetry.samples import TreeSamples

KIND = ("leaver",)
# It reports once and dies; what it started lives on and has its standard input.
DIES = """
import os, subprocess, sys
os.write(0, b'{"tocsin_leases_lost_total":[[[],7]]}\\n')
left = subprocess.Popen(["sleep", "60"], stdout=subprocess.DEVNULL, start_new_session=True)
print(left.pid, flush=True)
os._exit(3)
"""


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
