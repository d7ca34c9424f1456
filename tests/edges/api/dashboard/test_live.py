"""Streams of the dashboard: what they send, whom they serve, and what ends them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import msgspec
import pytest
from litestar import Litestar
from structlog.testing import capture_logs

from tests.edges.api.dashboard.visits import signed_in
from tests.edges.edge import Edge, listening, services
from tests.waiting import LONGEST_WAIT, until
from tocsin.api.app import create_app
from tocsin.api.auth.roles import Role
from tocsin.api.dashboard.live import hub as hubs
from tocsin.api.dashboard.live import stream as streams
from tocsin.api.dashboard.live.hub import LiveHub, TooManyStreamsError
from tocsin.engine.clock import utc_now
from tocsin.store.health.provider_health import Alarm, raise_alarms
from tocsin.store.pool import Pool

STREAM = "/dashboard/now/stream"
ACCEPT = {"Accept": "text/event-stream"}


class Stage(msgspec.Struct, frozen=True):
    """A served app, and a browser."""

    app: Litestar
    edge: Edge

    @property
    def hub(self) -> LiveHub:
        hub: LiveHub = self.app.state.dashboard_live
        return hub


@pytest.fixture
async def stage(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Stage]:
    """Serve the dashboard; it reads and looks up sessions often."""
    monkeypatch.setattr(streams, "CHECK_SECONDS", 0.1)
    app = create_app(services(pool))
    app.state.dashboard_live = LiveHub(every=0.05)
    async with listening(app) as url, httpx.AsyncClient(base_url=url, timeout=LONGEST_WAIT) as http:
        yield Stage(app, Edge(http, pool))
    await until(lambda: not readers())


class Events:
    """The events of a stream, one after the other."""

    def __init__(self, response: httpx.Response) -> None:
        self.response = response
        self._lines = response.aiter_lines()

    async def next(self) -> tuple[str, str]:
        """Return the name and the data of the next event."""
        name, data = "", []
        async with asyncio.timeout(LONGEST_WAIT):
            async for line in self._lines:
                field, _, value = line.partition(": ")
                if field == "event":
                    name = value
                elif field == "data":
                    data.append(value)
                elif not line and name:
                    return name, "\n".join(data)
        return "closed", ""

    async def until(self, name: str, text: str = "") -> str:
        """Return the data of the next event of a name that has a text."""
        while True:
            given, data = await self.next()
            if given == name and text in data:
                return data
            assert given != "closed", f"the stream ended before {name}"


@asynccontextmanager
async def streaming(edge: Edge, path: str = STREAM) -> AsyncIterator[Events]:
    async with edge.http.stream("GET", path, headers=ACCEPT) as response:
        assert response.status_code == 200, await response.aread()
        yield Events(response)


async def alarm(pool: Pool, detail: str) -> None:
    async with pool.acquire() as connection:
        await raise_alarms(connection, {Alarm("fcm", "credentials", detail): 1}, utc_now())


async def test_a_change_is_sent_to_whoever_looks(stage: Stage) -> None:
    await signed_in(stage.edge, Role.VIEWER)
    async with streaming(stage.edge) as events:
        first = await events.until("part")
        await alarm(stage.edge.pool, "it has expired")

        changed = await events.until("part", "it has expired")

        assert 'id="totals"' in first
        assert "it has expired" not in first
        assert 'hx-swap-oob="true"' in changed
        assert events.response.headers["content-type"] == "text/event-stream; charset=utf-8"
        assert events.response.headers.get_list("cache-control") == ["no-store"]
        assert events.response.headers["x-accel-buffering"] == "no"
        assert "default-src 'none'" in events.response.headers["content-security-policy"]


async def test_every_page_with_a_stream_has_the_same_part_by_polling(stage: Stage) -> None:
    visit = await signed_in(stage.edge, Role.VIEWER)
    for page in ("now", "providers"):
        async with streaming(stage.edge, f"/dashboard/{page}/stream") as events:
            part = await events.until("part")
        polled = await visit.shown(f"/dashboard/{page}/live")
        assert part.count("<table>") == polled.count("<table>")


async def test_viewers_of_one_part_share_its_reader() -> None:
    hub, readings = LiveHub(every=0.01), 0

    async def read() -> str:
        nonlocal readings
        readings += 1
        return f"reading {readings}\nof many"

    async def watch(session: str) -> bytes | None:
        with hub.watching("part", read, session) as viewer:
            return await viewer.next(LONGEST_WAIT)

    first = await asyncio.gather(*(watch(f"session {number}") for number in range(50)))

    assert set(first) == {b"event: part\ndata: reading 1\ndata: of many\n\n"}
    assert (readings, hub.streams) == (1, 0)


async def test_a_slow_viewer_gets_the_newest_alone() -> None:
    hub, text = LiveHub(every=0.01), "first"

    async def read() -> str:
        return text

    with hub.watching("part", read, "slow") as slow, hub.watching("part", read, "fast") as fast:
        assert b"first" in (await fast.next(LONGEST_WAIT) or b"")
        text = "second"
        assert b"second" in (await fast.next(LONGEST_WAIT) or b"")

        assert b"second" in (await slow.next(LONGEST_WAIT) or b"")
        assert await slow.next(0.05) is None


async def test_a_part_that_cannot_be_read_is_stale_until_it_can() -> None:
    hub = LiveHub(every=0.01)
    faults: list[Exception] = [OSError("away"), ZeroDivisionError("a bug")]

    async def read() -> str:
        if faults:
            raise faults.pop(0)
        return "fresh"

    with capture_logs() as logs, hub.watching("part", read, "session") as viewer:
        assert await viewer.next(LONGEST_WAIT) == b"event: stale\ndata: \n\n"
        assert b"fresh" in (await viewer.next(LONGEST_WAIT) or b"")

    assert [(entry["event"], entry["log_level"]) for entry in logs] == [
        ("live part not read", "warning"),
        ("live part not read", "error"),
    ]


async def test_a_database_that_does_not_answer_makes_a_part_stale(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hubs, "LONGEST_READING", 0.05)
    hub, answers = LiveHub(every=0.01), asyncio.Event()

    async def read() -> str:
        await answers.wait()
        return "fresh"

    with hub.watching("part", read, "session") as viewer:
        assert await viewer.next(LONGEST_WAIT) == hubs.STALE
        answers.set()
        assert b"fresh" in (await viewer.next(LONGEST_WAIT) or b"")


async def test_a_stream_ends_while_nobody_is_known_to_be_signed_in(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "LONGEST_READING", 0.1)
    await signed_in(stage.edge, Role.VIEWER)
    async with streaming(stage.edge) as events:
        await events.until("part")
        async with stage.edge.pool.acquire() as connection, connection.transaction():
            await connection.execute("lock table dashboard_sessions in access exclusive mode")

            assert await events.until("end") == "restart"


@pytest.mark.parametrize(
    "ended_by",
    [
        "delete from dashboard_sessions",
        "update dashboard_sessions set expires_at = now()",
        "update api_keys set revoked_at = now()",
        "update api_keys set role = 'producer'",
    ],
)
async def test_a_stream_ends_with_its_session_and_its_rights(stage: Stage, ended_by: str) -> None:
    await signed_in(stage.edge, Role.VIEWER)
    async with streaming(stage.edge) as events:
        await events.until("part")
        await stage.edge.pool.execute(ended_by)

        assert await events.until("end") == "signed_out"
        assert await events.next() == ("closed", "")
    await until(lambda: stage.hub.streams == 0)


async def test_a_stream_needs_a_session_and_a_browser_that_wants_it(stage: Stage) -> None:
    refused = await stage.edge.http.get(STREAM, headers=ACCEPT)
    visit = await signed_in(stage.edge, Role.VIEWER)
    plain = await visit.get(STREAM)

    assert (refused.status_code, refused.text, plain.status_code) == (401, "", 400)
    assert "location" not in refused.headers


async def test_a_session_and_a_process_have_so_many_streams(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hubs, "MOST_OF_SESSION", 2)
    await signed_in(stage.edge, Role.VIEWER)
    async with streaming(stage.edge) as first:
        await first.until("part")
        async with streaming(stage.edge) as second:
            await second.until("part")
            third = await stage.edge.http.get(STREAM, headers=ACCEPT)
            assert (third.status_code, "has 2 streams already" in third.text) == (503, True)
        await until(lambda: stage.hub.streams == 1)
        monkeypatch.setattr(hubs, "MOST_STREAMS", 1)
        assert (await stage.edge.http.get(STREAM, headers=ACCEPT)).status_code == 503
        monkeypatch.undo()
        async with streaming(stage.edge) as again:
            await again.until("part")


async def test_nothing_is_read_once_nobody_looks(stage: Stage) -> None:
    await signed_in(stage.edge, Role.VIEWER)
    before = readers()
    async with streaming(stage.edge) as events:
        await events.until("part")
        [reader] = readers() - before

    await until(reader.done)

    assert stage.hub.streams == 0


async def test_a_server_that_stops_ends_its_streams(pool: Pool) -> None:
    app = create_app(services(pool))
    async with asyncio.timeout(LONGEST_WAIT / 2), httpx.AsyncClient() as http:
        async with listening(app) as url:
            http.base_url = httpx.URL(url)
            await signed_in(Edge(http, pool), Role.VIEWER)
            request = http.build_request("GET", STREAM, headers=ACCEPT)
            events = Events(await http.send(request, stream=True))
            await events.until("part")

        assert await events.until("end") == "restart"
        assert await events.next() == ("closed", "")
    with pytest.raises(TooManyStreamsError):
        app.state.dashboard_live.watching("part", _nothing, "session").__enter__()


async def test_a_long_stream_is_not_a_slow_request(pool: Pool) -> None:
    app = create_app(services(pool, slow_seconds=0.2))
    with capture_logs() as logs:
        async with listening(app) as url, httpx.AsyncClient(base_url=url) as http:
            edge = Edge(http, pool)
            await signed_in(edge, Role.VIEWER)
            async with streaming(edge) as events:
                await events.until("part")
                await alarm(pool, "it has expired")
                await events.until("part", "it has expired")
            await until(lambda: app.state.dashboard_live.streams == 0)

    [line] = [entry for entry in logs if entry["event"] == "request handled" and entry["path"] == STREAM]
    assert line["status"] == 200
    assert line["duration_ms"] < 200
    assert line["log_level"] == "debug"


def readers() -> set[asyncio.Task[None]]:
    return {task for task in asyncio.all_tasks() if "_read_on" in repr(task.get_coro())}


async def _nothing() -> str:
    return ""
