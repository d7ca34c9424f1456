"""The archive as a process: killed at any step, stopped, asked for its state."""

import asyncio
import json
import os
import random
import re
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from tests.acceptance.processes import Process, Processes, processes_in
from tests.acceptance.telemetry.deployed import wanted_names
from tests.aws.archive.conftest import Topic
from tests.edges.command_line import run
from tests.waiting import found, until

MESSAGES = 300
KILLS = 6


def environment(topic: Topic, **changes: str) -> dict[str, str]:
    return {
        **topic.server.environ,
        "TOCSIN_ARCHIVE__QUEUE_URL": topic.url,
        "TOCSIN_ARCHIVE__DESTINATION": str(topic.folder),
        "TOCSIN_ARCHIVE__RECEIVERS": "2",
        "TOCSIN_ARCHIVE__ROLL_SECONDS": "1",
        "TOCSIN_ARCHIVE__VISIBILITY_SECONDS": "10",
        "TOCSIN_LOG__FORMAT": "json",
        **changes,
    }


class Wire:
    """Passes requests on to AWS, and calls `cut` before or after the one with a given number."""

    def __init__(self, upstream: str) -> None:
        self._upstream = urlsplit(upstream)
        self.cut: Callable[[], None] = lambda: None
        self.left = 0
        self.after = False

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                request = await _whole(reader)
                self.left -= 1
                is_last = self.left == 0
                if is_last and not self.after:
                    self.cut()
                answer = await self._answer(request, reader)
                if is_last and self.after:
                    self.cut()
                writer.write(answer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _answer(self, request: bytes, asking: asyncio.StreamReader) -> bytes:
        """Return the answer of AWS, or hang up there too if who asked is gone."""
        onward, answers = await asyncio.open_connection(self._upstream.hostname, self._upstream.port)
        answers.write(request)
        answering, gone = asyncio.create_task(_whole(onward)), asyncio.create_task(asking.read(1))
        try:
            await asyncio.wait([answering, gone], return_when=asyncio.FIRST_COMPLETED)
            if not answering.done():
                raise ConnectionResetError
            return answering.result()
        finally:
            answering.cancel()
            gone.cancel()
            await asyncio.wait([answering, gone])
            answers.close()


async def _whole(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    start = head.lower().index(b"content-length:")
    return head + await reader.readexactly(int(head[start + 15 : head.index(b"\r\n", start)]))


@asynccontextmanager
async def wire_to(upstream: str) -> AsyncIterator[tuple[Wire, str]]:
    wire = Wire(upstream)
    server = await asyncio.start_server(wire.serve, "127.0.0.1", 0)
    try:
        yield wire, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


async def started(processes: Processes, variables: dict[str, str]) -> Process:
    process = await processes.start("archive", environment=variables)
    await process.logged("archive started")
    return process


@pytest.mark.timeout(180)
async def test_nothing_is_lost_however_often_the_archive_is_killed(topic: Topic, tmp_path: Path) -> None:
    published = set(topic.publish_all(range(MESSAGES)))
    chosen = random.Random(13)  # noqa: S311
    async with processes_in(tmp_path) as processes, wire_to(topic.server.url) as (wire, address):
        variables = environment(topic, TOCSIN_AWS__ENDPOINT_URL=address, TOCSIN_ARCHIVE__ROLL_MESSAGES="20")
        for _ in range(KILLS):
            wire.left, wire.after = chosen.randrange(1, 11), chosen.random() < 0.5
            process = await processes.start("archive", environment=variables)
            wire.cut = lambda process=process: process.signal(signal.SIGKILL)  # type: ignore[misc]
            assert await process.end(within=45) == -signal.SIGKILL
        wire.left = 0
        for unfinished in (topic.folder / ".unfinished").glob("*.part"):
            os.utime(unfinished, (0, 0))
        last = await started(processes, variables)

        def ids() -> set[str]:
            return {line["message_id"] for line in topic.lines()}

        await until(lambda: ids() == published, within=60)
        await topic.empties()
        last.signal(signal.SIGTERM)
        assert await last.end() == 0

    assert len(topic.lines()) >= MESSAGES
    assert not list((topic.folder / ".unfinished").glob("*.part"))


async def test_a_stop_writes_what_it_holds_and_says_so(topic: Topic, tmp_path: Path) -> None:
    topic.publish_all(range(10))
    variables = environment(topic, TOCSIN_ARCHIVE__ROLL_SECONDS="3600", TOCSIN_PROBES__PORT="0")
    async with processes_in(tmp_path) as processes:
        process = await started(processes, variables | {"TOCSIN_METRICS__PORT": "0"})
        addresses = {
            each: (await process.logged(f"{each} started"))["address"] for each in ("probes", "metrics")
        }

        async with httpx.AsyncClient() as http:
            async with asyncio.timeout(20):
                while (
                    'tocsin_sqs_messages_held{queue="archive"} 10'
                    not in (await http.get(f"{addresses['metrics']}/metrics")).text
                ):
                    pass
            ready = await http.get(f"{addresses['probes']}/readyz")
        assert ready.status_code == 200
        assert not topic.files()
        process.signal(signal.SIGTERM)
        assert await process.end() == 0

    assert len(topic.lines()) == 10
    assert process.output[-1].startswith("Archived 10 messages: ")


async def test_everything_that_the_dashboard_reads_of_it_has_a_value(topic: Topic, tmp_path: Path) -> None:
    topic.publish_all(range(10))
    wanted = {name for name in wanted_names() if name.startswith(("tocsin_archive_", "tocsin_sqs_"))}
    async with processes_in(tmp_path) as processes, httpx.AsyncClient() as http:
        process = await started(processes, environment(topic, TOCSIN_METRICS__PORT="0"))
        address = (await process.logged("metrics started"))["address"]
        await topic.empties()

        async def look() -> bool:
            shown = (await http.get(f"{address}/metrics")).text
            return wanted <= set(re.findall(r"^(tocsin_\w+)", shown, re.MULTILINE))

        assert await found(look)


async def test_a_queue_is_drained_once(topic: Topic, tmp_path: Path) -> None:
    topic.publish_all(range(30))

    ran = await asyncio.to_thread(run, ["archive", "--once", "--json"], environment(topic), tmp_path)

    assert ran.code == 0
    size = sum(file.stat().st_size for file in topic.files())
    assert json.loads(ran.out) == {
        "messages": 30,
        "files": len(topic.files()),
        "bytes": size,
        "not_deleted": 0,
    }
    assert await topic.left() == (0, 0)


async def test_what_is_not_set_stops_the_start(topic: Topic, tmp_path: Path) -> None:
    nothing = await asyncio.to_thread(run, ["archive"], {}, tmp_path)
    missing = environment(topic, TOCSIN_ARCHIVE__DESTINATION=str(tmp_path / "not_mounted"))
    nowhere = await asyncio.to_thread(run, ["archive"], missing, tmp_path)

    assert (nothing.code, nowhere.code) == (2, 2)
    assert "archive.queue_url (TOCSIN_ARCHIVE__QUEUE_URL)" in nothing.said
    assert "archive.destination (TOCSIN_ARCHIVE__DESTINATION)" in nothing.said
    assert "is no folder; create it first" in nowhere.said
    assert not (tmp_path / "not_mounted").exists()


async def test_a_queue_that_cannot_be_drained_is_an_error(topic: Topic, tmp_path: Path) -> None:
    topic.sqs.delete_queue(QueueUrl=topic.url)

    ran = await asyncio.to_thread(run, ["archive", "--once"], environment(topic), tmp_path)

    assert ran.code == 2
    assert "sqs_unreachable: 3 tries in a row failed: QueueDoesNotExist" in ran.said
