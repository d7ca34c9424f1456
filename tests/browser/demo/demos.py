"""A demo that runs as `make run` starts it, for a browser to visit."""

import re
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import msgspec

from tests.acceptance.processes import Process, free_port, processes_in

PAGE = re.compile(r"^  (http://127\.0\.0\.1:\d+)/([\w-]{20,})/$", re.MULTILINE)


class RunningDemo(msgspec.Struct, frozen=True):
    """The addresses of a demo: its page, the origin of that, and its API."""

    url: str
    origin: str
    api_url: str
    process: Process


@contextmanager
def _open_folder() -> Iterator[Path]:
    """Make a folder for a database, which another user runs when root runs the tests."""
    with tempfile.TemporaryDirectory(prefix="tocsin-visited-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@asynccontextmanager
async def running_demo() -> AsyncIterator[RunningDemo]:
    """Start a demo and stop it at the end."""
    port = free_port()
    with _open_folder() as folder:
        environment = {"TOCSIN_HTTP__PORT": str(port), "TMPDIR": str(folder)}
        async with processes_in(folder) as processes:
            process = await processes.start("demo", environment=environment)
            said = await process.said("Ctrl-C stops everything.", within=90)
            found = PAGE.search(said)
            assert found is not None, said
            yield RunningDemo(found[0].strip(), found[1], f"http://127.0.0.1:{port}", process)
