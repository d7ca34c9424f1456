"""The supervisor: what it does about hangups, and about children that exit."""

import asyncio
import errno
import os
import signal
import socket
import sys
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from tests.waiting import until
from tocsin.cli.run import supervisor
from tocsin.cli.run.supervisor import Child, ChildCannotStartError, run_tree

# Each start adds a line with the process id, and ends when its standard input closes.
HEADER = f"""#!{sys.executable} -IS
import os, signal, sys
def note(text):
    with open(os.environ["NOTES"], "a") as notes:
        notes.write(f"{{text}} {{os.getpid()}}\\n")
"""
WAITING = f"""{HEADER}
def end(*_):
    note("terminated")
    sys.exit()
signal.signal(signal.SIGTERM, end)
note("started")
sys.stdin.read()
"""
HANDLING = (
    HEADER + 'signal.signal(signal.SIGHUP, lambda *_: note("hangup"))\nnote("started")\nsys.stdin.read()\n'
)


class Terminal(StringIO):
    """A standard input that is a terminal."""

    def isatty(self) -> bool:
        return True


class Stand:
    """A tree of one child, which runs a script instead of `tocsin`."""

    def __init__(self, folder: Path) -> None:
        self.program = folder / "program"
        self.notes = folder / "notes"
        self.notes.touch()

    def child(self, script: str) -> Child:
        self.program.write_text(script)
        self.program.chmod(0o755)
        return Child("worker", ["worker"], {"NOTES": str(self.notes)})

    def noted(self, event: str) -> list[str]:
        """List the process ids that noted an event."""
        lines = (line.split() for line in self.notes.read_text().splitlines())
        return [pid for name, pid in lines if name == event]


@pytest.fixture
def stand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stand]:
    made = Stand(tmp_path)
    monkeypatch.setattr(sys, "executable", str(made.program))
    monkeypatch.setattr(sys, "stdin", StringIO())
    before = signal.getsignal(signal.SIGHUP)
    yield made
    signal.signal(signal.SIGHUP, before)


async def test_a_hangup_is_passed_on_and_stops_nothing(stand: Stand) -> None:
    stop = asyncio.Event()
    tree = asyncio.create_task(run_tree([stand.child(HANDLING)], stop, grace=5, embedded=None))
    await until(lambda: len(stand.noted("started")) == 1)

    os.kill(os.getpid(), signal.SIGHUP)
    await until(lambda: stand.noted("hangup") == stand.noted("started"))

    assert not tree.done()
    stop.set()
    await tree
    # The database is still to be stopped.
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


async def test_a_hangup_does_not_end_a_child_that_has_no_handler_yet(stand: Stand) -> None:
    stop = asyncio.Event()
    tree = asyncio.create_task(run_tree([stand.child(WAITING)], stop, grace=5, embedded=None))
    await until(lambda: len(stand.noted("started")) == 1)
    [pid] = map(int, stand.noted("started"))

    os.kill(pid, signal.SIGHUP)
    os.kill(os.getpid(), signal.SIGHUP)
    stop.set()
    await tree

    assert stand.noted("terminated") == [str(pid)]


async def test_a_terminal_that_closes_takes_the_tree_with_it(
    stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal())
    stop = asyncio.Event()
    tree = asyncio.create_task(run_tree([stand.child(HANDLING)], stop, grace=5, embedded=None))
    await until(lambda: len(stand.noted("started")) == 1)

    os.kill(os.getpid(), signal.SIGHUP)
    await asyncio.wait_for(tree, 20)

    assert stop.is_set()
    assert stand.noted("hangup") == []
    # A second one, which the shell sends to the whole group, does not end what is left to do.
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


async def test_a_child_that_ran_is_started_again_whatever_its_exit_code(
    stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Code 2 at the first start is for an operator to fix; later it is the database that is away."""
    monkeypatch.setattr(supervisor, "STEADY_AFTER", 0.0)
    stop = asyncio.Event()
    child = stand.child(HEADER + 'note("started")\nsys.exit(2)\n')
    running = asyncio.create_task(child.run(stop, 5))

    await until(lambda: len(stand.noted("started")) >= 2)
    stop.set()
    await running


async def test_a_child_that_cannot_be_forked_for_a_while_is_started_later(
    stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    fork, pair = asyncio.create_subprocess_exec, socket.socketpair
    pairs: list[tuple[socket.socket, socket.socket]] = []

    def socketpair() -> tuple[socket.socket, socket.socket]:
        pairs.append(pair())
        return pairs[-1]

    async def fork_unless_second(*arguments: Any, **options: Any) -> asyncio.subprocess.Process:
        if len(pairs) == 2:
            raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))
        return await fork(*arguments, **options)

    async def no_pause(*_: Any) -> None:
        await asyncio.sleep(0)

    monkeypatch.setattr(asyncio, "create_subprocess_exec", fork_unless_second)
    monkeypatch.setattr(socket, "socketpair", socketpair)
    monkeypatch.setattr(supervisor, "pause", no_pause)
    stop = asyncio.Event()
    running = asyncio.create_task(stand.child(HEADER + 'note("started")\nsys.exit(3)\n').run(stop, 5))

    await until(lambda: running.done() or len(stand.noted("started")) >= 2)

    stop.set()
    await running
    assert [each.fileno() for each in pairs[1]] == [-1, -1]


async def test_a_child_that_cannot_start_ends_the_tree(stand: Stand) -> None:
    child = stand.child(HEADER + 'note("started")\nsys.exit(2)\n')

    with pytest.raises(ChildCannotStartError, match="worker could not start"):
        await run_tree([child], asyncio.Event(), grace=5, embedded=None)

    assert len(stand.noted("started")) == 1
