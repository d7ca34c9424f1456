"""A catalog is reloaded while the process runs, one with faults is not, and it is shown who uses which."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.engine.conftest import ALERT, TEXTS, add_type
from tests.waiting import found, until
from tocsin.catalog.catalog import Catalog
from tocsin.catalog.load import load_catalog, shipped_catalog
from tocsin.engine.catalog_watch import CatalogWatch
from tocsin.engine.clock import utc_now
from tocsin.store import processes
from tocsin.store.pool import Pool


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copytree(shipped_catalog(), tmp_path / "catalog")
    return tmp_path / "catalog"


@asynccontextmanager
async def watching(pool: Pool, folder: Path, kind: str = "worker") -> AsyncIterator[Catalog]:
    catalog = load_catalog(folder)
    async with running_watch(catalog, pool, folder, kind):
        yield catalog


@asynccontextmanager
async def running_watch(
    catalog: Catalog, pool: Pool, folder: Path, kind: str = "worker"
) -> AsyncIterator[CatalogWatch]:
    watch = CatalogWatch(catalog, folder, kind=kind, pool=pool, clock=utc_now, look_seconds=0.01)
    running = asyncio.create_task(watch.run())
    try:
        yield watch
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def alarms(pool: Pool) -> set[str]:
    rows = await pool.fetch("select code from alarms where provider = 'catalog' and cleared_at is null")
    return {row["code"] for row in rows}


async def test_a_new_type_is_known_without_a_restart(pool: Pool, folder: Path) -> None:
    async with watching(pool, folder) as catalog:
        before = catalog.fingerprint
        assert catalog.find("alert") is None
        add_type(folder, "alert", ALERT, TEXTS)
        await until(lambda: catalog.find("alert") is not None)

        assert catalog.fingerprint == load_catalog(folder).fingerprint != before
        assert not catalog.faults("alert", None, {"text": "Fire"})


async def test_a_catalog_with_faults_is_not_used_and_raises_an_alarm(pool: Pool, folder: Path) -> None:
    body = folder / "templates/new_customer/en/push.body.j2"
    good = body.read_text()
    async with watching(pool, folder) as catalog:
        before = catalog.fingerprint
        with capture_logs() as lines:
            body.write_text("{{ customer_nmae }}")
            await found(lambda: _has(pool, {"catalog_faulty"}))
        assert catalog.fingerprint == before
        assert catalog.render(catalog.types["new_customer"], "push", "en", {"customer_name": "Ada"}).parts
        (line,) = [line for line in lines if line["event"] == "catalog reload failed"]
        assert line["log_level"] == "error"
        assert "templates/new_customer/en/push.body.j2:1" in line["faults"][0]
        (process,) = await processes.alive(pool)
        assert "'customer_nmae' is not a field" in str(process.catalog_fault)

        body.write_text(good + "\n\n")
        await found(lambda: _has(pool, set()))
        assert catalog.fingerprint != before


async def test_a_catalog_that_cannot_even_be_checked_does_not_end_the_process(
    pool: Pool, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with watching(pool, folder) as catalog:
        before = catalog.fingerprint
        with monkeypatch.context() as broken, capture_logs() as lines:
            broken.setattr("tocsin.engine.catalog_watch.load_catalog", _fail)
            add_type(folder, "alert", ALERT, TEXTS)
            await found(lambda: _has(pool, {"catalog_faulty"}))
        assert catalog.fingerprint == before
        assert {line["fault"] for line in lines if line["event"] == "catalog reload failed"} == {
            "the catalog cannot be loaded: RecursionError: too deep"
        }
        (folder / "types/alert.yaml").touch()
        await until(lambda: catalog.find("alert") is not None)


def _fail(*_: object) -> Catalog:
    raise RecursionError("too deep")


async def _has(pool: Pool, codes: set[str]) -> bool:
    return await alarms(pool) == codes


async def test_what_is_under_way_under_a_type_that_is_gone_is_still_rendered(
    pool: Pool, folder: Path
) -> None:
    async with watching(pool, folder) as catalog:
        under_way = catalog.types["new_customer"]
        (folder / "types/new_customer.yaml").unlink()
        shutil.rmtree(folder / "templates/new_customer")
        await until(lambda: catalog.find("new_customer") is None)

        assert catalog.render(under_way, "push", "en", {"customer_name": "Ada"}).parts["title"]


async def test_processes_with_different_catalogs_are_shown(pool: Pool, folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(folder, other)
    add_type(other, "alert", ALERT, TEXTS)
    async with watching(pool, folder) as old:
        assert await alarms(pool) == set()
        async with watching(pool, other, kind="api") as new:
            await found(lambda: _has(pool, {"catalogs_differ"}))
            rows = await processes.alive(pool)
            assert [(row.kind, row.catalog) for row in rows] == [
                ("api", new.fingerprint),
                ("worker", old.fingerprint),
            ]
        # A process that ends is no longer listed.
        await found(lambda: _has(pool, set()))
        assert [row.kind for row in await processes.alive(pool)] == ["worker"]


async def test_an_operator_has_every_process_read_its_catalog_again(pool: Pool, folder: Path) -> None:
    assert await processes.ask_reload(pool) is None
    async with watching(pool, folder):
        await found(lambda: processes.alive(pool))
        asked_at = await processes.ask_reload(pool)

        async def read_again() -> bool:
            (row,) = await processes.alive(pool)
            return asked_at is not None and row.catalog_read_at > asked_at

        await found(read_again)


async def test_files_are_watched_while_the_database_is_away(folder: Path, pool: Pool) -> None:
    async with watching(pool, folder) as catalog:
        await found(lambda: processes.alive(pool))
        pool.terminate()
        add_type(folder, "alert", ALERT, TEXTS)
        await until(lambda: catalog.find("alert") is not None)


async def test_what_changed_while_the_process_started_is_read_at_the_first_look(
    pool: Pool, folder: Path
) -> None:
    catalog = load_catalog(folder)
    add_type(folder, "alert", ALERT, TEXTS)
    async with running_watch(catalog, pool, folder):
        await until(lambda: catalog.find("alert") is not None)


async def test_a_reload_that_is_asked_for_is_logged_although_nothing_changed(
    pool: Pool, folder: Path
) -> None:
    def reloads(lines: list[Any]) -> int:
        return len([line for line in lines if line["event"] == "catalog reloaded"])

    catalog = load_catalog(folder)
    with capture_logs() as lines:
        async with running_watch(catalog, pool, folder) as watch:
            await found(lambda: processes.alive(pool))
            assert reloads(lines) == 0
            watch.ask()
            await until(lambda: reloads(lines) == 1)
            await processes.ask_reload(pool)
            await until(lambda: reloads(lines) == 2)


async def test_an_alarm_stands_while_its_cause_does_whoever_starts_or_clears_it(
    pool: Pool, folder: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    shutil.copytree(folder, other)
    add_type(other, "alert", ALERT, TEXTS)
    standing = "select id from alarms where code = 'catalogs_differ' and cleared_at is null"
    async with watching(pool, folder), watching(pool, other, kind="api"):
        raised = await found(lambda: pool.fetchval(standing))
        async with watching(pool, folder, kind="relay"):

            async def seen_twice() -> bool:
                looks = "select seen_at > started_at from processes where kind = 'relay'"
                return bool(await pool.fetchval(looks))

            # A process that starts does not clear it.
            await found(seen_twice)
            assert await pool.fetchval(standing) == raised
        # An operator who clears it has not mended it.
        await pool.execute("update alarms set cleared_at = now() where id = $1", raised)
        assert await found(lambda: pool.fetchval(standing)) != raised
