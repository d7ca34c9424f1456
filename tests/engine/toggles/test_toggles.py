import asyncio
import timeit
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime

import asyncpg
import pytest
from structlog.testing import capture_logs

from tests.databases import SCHEMA
from tests.engine.toggles.flag_service import FlagService
from tests.waiting import until
from tocsin.domain.errors import SettingsError
from tocsin.engine.toggles.flags import load_provider
from tocsin.engine.toggles.settings import TogglesSettings, toggles_settings_faults
from tocsin.engine.toggles.toggles import CACHE_SECONDS, Toggles, ToggleWatch
from tocsin.store import toggles as store
from tocsin.store.pool import Pool, PoolSettings

FOREIGN = TogglesSettings(provider="tests.engine.toggles.flag_service:FlagService")
A_LONG_TIME = 3_600.0
ROUTES = [(kind, channel) for kind in ("alert", "news") for channel in ("push", "email")]


class Time:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


async def switch(pool: Pool, name: str, *, enabled: bool) -> None:
    async with pool.acquire() as connection:
        await store.change(connection, name, enabled=enabled, reason=None, by="ada", now=datetime.now(UTC))


@contextmanager
def foreign(time: Time | None = None) -> Iterator[tuple[Toggles, FlagService]]:
    toggles = Toggles(FOREIGN, monotonic=time or Time())
    service = FlagService.made[-1]
    try:
        yield toggles, service
    finally:
        toggles.close()


class Watched:
    """Toggles kept up to date by a running watch, and the signal that they changed."""

    def __init__(self, url: str, refresh_seconds: float) -> None:
        self.changed = asyncio.Event()
        self.toggles = Toggles()
        self.toggles.on_change(self.changed.set)
        self.watch = ToggleWatch(self.toggles, url, SCHEMA, PoolSettings(), refresh_seconds=refresh_seconds)

    async def change(self, *, within: float) -> None:
        async with asyncio.timeout(within):
            await self.changed.wait()
        self.changed.clear()


@asynccontextmanager
async def watching(url: str, refresh_seconds: float = A_LONG_TIME) -> AsyncIterator[Watched]:
    watched = Watched(url, refresh_seconds)
    running = asyncio.create_task(watched.watch.run())
    try:
        async with asyncio.timeout(20):
            await watched.watch.listening.wait()
        yield watched
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        watched.toggles.close()


async def hang_up(url: str) -> None:
    """End the sessions that watch toggles, known by what they asked last."""
    connection = await asyncpg.connect(url)
    ended = await connection.fetch(
        "select pg_terminate_backend(pid) from pg_stat_activity "
        "where datname = current_database() and query = $1",
        store.OFF,
    )
    await connection.close()
    assert len(ended) == 1


@pytest.mark.parametrize(
    ("name", "off"),
    [
        ("type:alert", [("alert", "push"), ("alert", "email")]),
        ("type:alert:push", [("alert", "push")]),
        ("channel:push", [("alert", "push"), ("news", "push")]),
        ("provider:fcm", []),
        ("type:ale", []),
    ],
)
async def test_a_toggle_switches_what_its_name_says_and_nothing_else(
    pool: Pool, name: str, off: list[tuple[str, str]]
) -> None:
    toggles = Toggles()
    assert all(toggles.is_on(*route) for route in ROUTES)
    assert toggles.provider_on("fcm")

    await switch(pool, name, enabled=False)
    await toggles.load(pool)
    assert [route for route in ROUTES if not toggles.is_on(*route)] == off
    assert {toggles.off_by(*route) for route in off} <= {name}
    assert toggles.provider_on("fcm") is (name != "provider:fcm")
    assert toggles.provider_on("apns")

    await switch(pool, name, enabled=True)
    await toggles.load(pool)
    assert all(toggles.is_on(*route) for route in ROUTES)
    assert toggles.provider_on("fcm")
    toggles.close()


async def test_a_narrow_toggle_that_is_on_does_not_open_a_wide_one(pool: Pool) -> None:
    toggles = Toggles()
    await switch(pool, "type:alert", enabled=False)
    await switch(pool, "type:alert:push", enabled=True)
    await toggles.load(pool)

    assert toggles.off_by("alert", "push") == "type:alert"
    toggles.close()


async def test_a_change_is_known_elsewhere_within_a_second(database_url: str, pool: Pool) -> None:
    async with watching(database_url) as first, watching(database_url) as second:
        for enabled in (False, True, False):
            await switch(pool, "type:alert", enabled=enabled)
            for watched in (first, second):
                await watched.change(within=1)
                assert watched.toggles.is_on("alert", "push") is enabled


async def test_what_was_off_before_is_known_from_the_start(database_url: str, pool: Pool) -> None:
    await switch(pool, "channel:push", enabled=False)

    async with watching(database_url) as watched:
        assert not watched.toggles.is_on("alert", "push")


async def test_many_changes_at_once_end_in_the_last_state(database_url: str, pool: Pool) -> None:
    async with watching(database_url) as watched:
        await asyncio.gather(
            *(switch(pool, f"type:t{number % 7}", enabled=number % 2 == 0) for number in range(50))
        )
        off = await store.off(pool)

        def agrees() -> bool:
            return off == {f"type:t{n}" for n in range(7) if not watched.toggles.is_on(f"t{n}", "push")}

        await until(agrees, within=1)


async def test_a_lost_connection_is_taken_up_again_and_nothing_is_missed(
    database_url: str, pool: Pool
) -> None:
    async with watching(database_url) as watched:
        await switch(pool, "type:alert", enabled=False)
        await watched.change(within=1)
        await hang_up(database_url)
        await until(lambda: not watched.watch.listening.is_set())
        assert not watched.toggles.is_on("alert", "push")

        await switch(pool, "type:news", enabled=False)
        await watched.change(within=20)
        assert not watched.toggles.is_on("news", "push")
        async with asyncio.timeout(20):
            await watched.watch.listening.wait()
        await switch(pool, "type:alert", enabled=True)
        await watched.change(within=1)
        assert watched.toggles.is_on("alert", "push")


async def test_a_connection_that_does_not_answer_is_given_up(
    database_url: str, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tocsin.engine.toggles.toggles.LOAD_TIMEOUT", 0.2)
    async with watching(database_url, refresh_seconds=0.05) as watched:
        async with pool.acquire() as connection, connection.transaction():
            await connection.execute("lock table toggles in access exclusive mode")
            await until(lambda: not watched.watch.listening.is_set())
            await store.change(
                connection, "type:alert", enabled=False, reason=None, by="ada", now=datetime.now(UTC)
            )

        await watched.change(within=20)
        assert not watched.toggles.is_on("alert", "push")


async def test_a_database_that_is_away_changes_nothing(pool: Pool) -> None:
    toggles = Toggles()
    await switch(pool, "type:alert", enabled=False)
    await toggles.load(pool)
    nowhere = "postgresql://127.0.0.1:1/nowhere"
    watch = ToggleWatch(toggles, nowhere, SCHEMA, PoolSettings(connect_timeout=1))

    with capture_logs() as lines:
        running = asyncio.create_task(watch.run())
        await until(lambda: bool(lines))
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    assert (lines[0]["event"], lines[0]["duty"]) == ("duty failed", "toggle watch")
    assert "The database does not answer" in lines[0]["error"]
    assert not toggles.is_on("alert", "push")
    assert toggles.is_on("news", "push")
    toggles.close()


async def test_what_nobody_told_of_is_found_by_the_clock(database_url: str, pool: Pool) -> None:
    async with watching(database_url, refresh_seconds=0.05) as watched:
        await pool.execute("insert into toggles values ('type:alert', false, now(), 'by hand')")

        await watched.change(within=20)
        assert not watched.toggles.is_on("alert", "push")


async def test_looking_again_without_a_change_signals_nothing(pool: Pool) -> None:
    signals: list[None] = []
    toggles = Toggles()
    toggles.on_change(lambda: signals.append(None))
    await switch(pool, "type:alert", enabled=False)
    for _ in range(3):
        await toggles.load(pool)
    await switch(pool, "type:news", enabled=True)
    await toggles.load(pool)

    assert len(signals) == 1
    toggles.close()


def test_asking_again_costs_less_than_two_microseconds() -> None:
    toggles = Toggles()
    times = 20_000
    try:
        for ask in (lambda: toggles.is_on("alert", "push"), lambda: toggles.provider_on("fcm")):
            assert min(timeit.repeat(ask, number=times, repeat=5)) / times < 2e-6
    finally:
        toggles.close()


def test_another_provider_decides_by_flag_and_context() -> None:
    time = Time()
    with foreign(time) as (toggles, service):
        service.flags = {"type:alert": {"email"}, "provider:fcm": False, "channel:push": True}

        assert toggles.is_on("alert", "push")
        assert toggles.off_by("alert", "email") == "type:alert"
        assert toggles.is_on("news", "email")
        assert not toggles.provider_on("fcm")
        assert toggles.provider_on("apns")
        assert ("type:alert:push", {"type": "alert", "channel": "push"}) in service.asked
        assert ("provider:fcm", {"provider": "fcm"}) in service.asked


async def test_our_table_has_no_say_beside_another_provider(pool: Pool) -> None:
    await switch(pool, "type:alert", enabled=False)
    with foreign() as (toggles, _):
        await toggles.load(pool)

        assert toggles.is_on("alert", "push")


def test_what_another_provider_says_is_remembered_for_a_second_at_most() -> None:
    time = Time()
    with foreign(time) as (toggles, service):
        assert toggles.is_on("alert", "push")
        assert toggles.provider_on("fcm")
        service.flags = {"type:alert": False, "provider:fcm": False}
        asked = len(service.asked)

        assert CACHE_SECONDS <= 1
        time.now += CACHE_SECONDS - 0.001
        assert toggles.is_on("alert", "push")
        assert toggles.provider_on("fcm")
        assert len(service.asked) == asked
        time.now += 0.001
        assert not toggles.is_on("alert", "push")
        assert not toggles.provider_on("fcm")


def test_what_cannot_be_evaluated_is_on_and_told_once_until_it_works_again() -> None:
    time = Time()

    def ask(toggles: Toggles, *, times: int) -> list[bool]:
        answers = []
        for _ in range(times):
            time.now += CACHE_SECONDS
            answers.append(toggles.provider_on("fcm"))
        return answers

    with foreign(time) as (toggles, service), capture_logs() as lines:
        service.flags = {"provider:fcm": False}
        service.broken = True
        assert ask(toggles, times=3) == [True] * 3
        service.broken = False
        assert ask(toggles, times=2) == [False] * 2
        service.broken = True
        assert ask(toggles, times=3) == [True] * 3

    assert [(line["event"], line["toggle"], line["error"], line["used"]) for line in lines] == [
        ("toggle evaluation failed", "provider:fcm", "flags.example hung up", "on")
    ] * 2


def test_a_flag_that_is_not_known_is_on_without_a_word() -> None:
    with capture_logs() as lines, foreign() as (toggles, _):
        assert toggles.is_on("alert", "push")

    assert lines == []


def test_a_provider_that_does_not_start_leaves_everything_on() -> None:
    with capture_logs() as lines:
        toggles = Toggles(TogglesSettings(provider="tests.engine.toggles.flag_service:unready"))

    assert toggles.is_on("alert", "push")
    assert [(line["event"], line["error"]) for line in lines] == [
        ("toggle provider failed to start", "ConnectionRefusedError: flags.example does not answer")
    ]
    toggles.close()


async def test_a_provider_is_let_go_of() -> None:
    with foreign() as (_, service):
        assert not service.shut

    await until(lambda: service.shut)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("no_such_module:make", "no_such_module:make cannot be imported: ModuleNotFoundError"),
        (
            "tests.engine.toggles.flag_service:nothing",
            "names nothing that can be called in tests.engine.toggles.flag_service",
        ),
        ("tests.engine.toggles.flag_service:FlagService.no.such", "names nothing that can be called"),
        ("tests.engine.toggles.flag_service:failing", "failed: RuntimeError: no flag key in the environment"),
        ("builtins:dict", "returned a dict, not an OpenFeature provider: it lacks attach, initialize"),
    ],
)
def test_a_provider_that_cannot_be_had_is_named(path: str, message: str) -> None:
    with pytest.raises(SettingsError) as raised:
        load_provider(path)

    assert message in str(raised.value)
    assert "TOCSIN_TOGGLES__PROVIDER" in str(raised.value)


@pytest.mark.parametrize("path", ["", "module", "module:", ":make", "a b:c", "a:b:c", "a/b.py:make"])
def test_a_provider_must_be_an_import_path(path: str) -> None:
    (fault,) = toggles_settings_faults(TogglesSettings(provider=path))

    assert fault.field == "toggles.provider"
    assert "package.module:callable" in fault.message


@pytest.mark.parametrize("path", [None, "module:make", "package.module:Class.make"])
def test_an_import_path_is_taken(path: str | None) -> None:
    assert list(toggles_settings_faults(TogglesSettings(provider=path))) == []
