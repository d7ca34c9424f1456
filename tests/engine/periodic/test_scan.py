"""Scans of an application's database: rows become intents, in order, from the checkpoint on."""

from collections.abc import AsyncIterator
from contextlib import aclosing
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import asyncpg
import msgspec
import pytest

from tests.databases import Clones, fresh_database, name_of
from tests.engine.periodic.feeds import NOON
from tests.engine.periodic.stage import PeriodicStage
from tests.engine.stage import Stage
from tocsin.domain.errors import SettingsError
from tocsin.engine.periodic.load import load_sources
from tocsin.engine.periodic.scan import bind_last
from tocsin.engine.periodic.settings import PeriodicSettings
from tocsin.engine.periodic.source import Source

SCAN = """
fresh:
  schedule: "*/15 * * * *"
  database: crm
  query: |
    select id, name, city, owners, spent, extra, created_at
    from customers
    where created_at > :last  -- not :this one, nor ':that'
    order by created_at, id
  checkpoint: {column: created_at, type: timestamptz, initial: "2026-01-01T00:00:00Z"}
  key: id
  type: alert
  audience: {users: "{{ owners }}"}
  payload:
    text: "{{ name }} of {{ city }}"
    id: "{{ id }}"
    spent: "{{ spent }}"
    extra: "{{ extra }}"
    fixed: [1, true]
"""
TABLE = """
create table customers (
    id bigint generated always as identity primary key,
    name text not null,
    city text,
    owners text[] not null default '{ada}',
    spent numeric not null default 12.50,
    extra jsonb not null default '{"vip": true}',
    created_at timestamptz not null
)
"""


class Shop:
    """An application's own database."""

    def __init__(self, url: str, connection: asyncpg.Connection) -> None:
        self.url = url
        self.connection = connection

    async def add(self, count: int, at: datetime, step: timedelta = timedelta()) -> None:
        """Add customers, one after the other or all in the same moment."""
        await self.connection.execute(
            "insert into customers (name, city, created_at) "
            "select 'c' || n, 'Izmir', $2::timestamptz + n * $3::interval from generate_series(1, $1::int) n",
            count,
            at,
            step,
        )


@pytest.fixture(scope="module")
async def shops(server_url: str) -> AsyncIterator[Clones]:
    async with fresh_database(server_url) as url:
        connection = await asyncpg.connect(url)
        await connection.execute(TABLE)
        await connection.close()
        async with aclosing(Clones(server_url, name_of(url))) as clones:
            yield clones


@pytest.fixture
async def shop(shops: Clones) -> AsyncIterator[Shop]:
    async with shops.lent() as url:
        connection = await asyncpg.connect(url)
        yield Shop(url, connection)
        await connection.close()


class Scans:
    """Reads a scan from a file and runs it."""

    def __init__(self, periodic: PeriodicStage, stage: Stage, shop: Shop, folder: Path) -> None:
        self.periodic = periodic
        self._stage = stage
        self._shop = shop
        self._folder = folder

    def load(self, text: str = SCAN, **changes: str) -> Source:
        for old, new in changes.items():
            assert OLD[old] in text
            text = text.replace(OLD[old], new)
        (self._folder / "scans.yaml").write_text(text)
        settings = PeriodicSettings(folder=self._folder, databases={"crm": self._shop.url})
        [source] = load_sources(settings, self._stage.catalog, self.periodic.clock())
        return source

    async def run(self, source: Source) -> Any:
        """Run it and give how it stands then."""
        await self.periodic.register(source)
        await self.periodic.request(source.name)
        assert await self.periodic.perform(source)
        return await self.periodic.progress(source.name)


OLD = {
    "columns": "id, name, city, owners, spent, extra, created_at",
    "order": "order by created_at, id",
    "where": "where created_at > :last",
    "checkpoint": '{column: created_at, type: timestamptz, initial: "2026-01-01T00:00:00Z"}',
    "database": "database: crm",
}


@pytest.fixture
def scans(periodic: PeriodicStage, stage: Stage, shop: Shop, tmp_path: Path) -> Scans:
    return Scans(periodic, stage, shop, tmp_path)


async def test_every_row_becomes_an_intent_once(scans: Scans, shop: Shop) -> None:
    source = scans.load()
    await shop.add(3, NOON, timedelta(seconds=1))
    row = await scans.run(source)
    assert (row.accepted, row.last_value) == (3, "2026-03-02T12:00:08Z")

    await shop.add(2, NOON + timedelta(minutes=1))
    row = await scans.run(source)

    assert (row.accepted, row.duplicates, row.refused) == (5, 0, 0)
    assert await scans.periodic.keys() == [f"fresh:{number}" for number in range(1, 6)]
    stored = await scans.periodic.pool.fetchrow("select producer, audience, payload from notifications")
    assert (stored["producer"], stored["audience"]) == ("fresh", '{"users": ["ada"]}')
    assert msgspec.json.decode(stored["payload"]) == {
        "text": "c1 of Izmir",
        "id": 1,
        "spent": "12.50",
        "extra": {"vip": True},
        "fixed": [1, True],
    }


async def test_rows_of_the_same_moment_are_not_parted(scans: Scans, shop: Shop) -> None:
    """A run that dies between two batches of one moment begins that moment again."""
    source = msgspec.structs.replace(scans.load(), batch=2)
    await shop.add(1, NOON)
    await shop.add(5, NOON + timedelta(seconds=1))
    await scans.periodic.register(source)
    await scans.periodic.request("fresh")
    run = await scans.periodic.claim(source)
    assert run is not None
    batches = 0
    write = run._write

    async def dies_after_two(*given: Any, **more: Any) -> Any:
        nonlocal batches
        batches += 1
        if batches == 3:
            raise RuntimeError("died")
        return await write(*given, **more)

    run._write = dies_after_two  # type: ignore[method-assign]
    await run.perform()
    row = await scans.periodic.progress("fresh")
    assert (row.accepted, row.last_value) == (4, "2026-03-02T12:00:05Z")

    row = await scans.run(source)

    assert (row.accepted, row.duplicates) == (6, 3)
    assert len(await scans.periodic.keys()) == 6


async def test_rows_without_an_intent_are_recorded_and_passed_by(scans: Scans, shop: Shop) -> None:
    source = scans.load()
    await shop.add(3, NOON, timedelta(seconds=1))
    await shop.connection.execute("update customers set city = null where id = 1")
    await shop.connection.execute("update customers set owners = '{}' where id = 2")

    row = await scans.run(source)

    assert (row.status, row.accepted, row.refused) == ("idle", 1, 2)
    refused = await scans.periodic.pool.fetch("select * from refused_intents order by id")
    assert [each["idempotency_key"] for each in refused] == ["fresh:1", "fresh:2"]
    assert "null is not text" in refused[0]["faults"]
    assert "audience.users" in refused[1]["faults"]
    assert {each["source"] for each in refused} == {"periodic"}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"columns": "id, name, owners, spent, extra, created_at"}, "the query gives no column city"),
        ({"order": "order by created_at desc"}, "the rows do not come in order"),
        (
            {"columns": "id, name, city, owners, spent, extra, created_at::timestamp"},
            "column created_at has no time zone",
        ),
        ({"columns": "id, name, city, owners, spent, extra, null as created_at"}, "gave null"),
        ({"where": "where created_at > :last and pg_sleep(2) is not null"}, "took longer than 0.2 s"),
        ({"where": "where created_at > :last and nobody = 1"}, 'column "nobody" does not exist'),
        ({"columns": "id, name, city, owners, spent, extra, created_at, lo_create(0)"}, "read-only"),
        (
            {"database": "database: postgresql://u:hunter2@127.0.0.1:1/x"},
            "the database named in the file does not answer",
        ),
    ],
)
async def test_a_scan_that_cannot_run_says_why_and_moves_nothing(
    scans: Scans, shop: Shop, changes: dict[str, str], said: str
) -> None:
    text = SCAN.replace("  key: id", "  statement_timeout_seconds: 0.2\n  key: id")
    source = scans.load(text, **changes)
    await shop.add(2, NOON, timedelta(seconds=1))

    row = await scans.run(source)

    assert row.status == "failed"
    assert said in (row.last_error or "")
    assert "hunter2" not in f"{row.last_error}{source!r}"
    assert (row.last_value, row.accepted) == ("2026-01-01T00:00:00Z", 0)


@pytest.mark.parametrize(
    ("declared", "column", "initial", "last"),
    [
        ("{column: id, type: bigint, initial: 0}", "id", 0, 3),
        ("{column: name, type: text, initial: ''}", "name", "", "c3"),
        ("{column: created_at, type: timestamptz, initial: now}", "created_at", None, None),
    ],
)
async def test_a_checkpoint_is_of_the_type_that_was_declared(
    scans: Scans, shop: Shop, declared: str, column: str, initial: Any, last: Any
) -> None:
    source = scans.load(checkpoint=declared, where=f"where {column} > :last", order=f"order by {column}")
    await shop.add(3, NOON + timedelta(hours=1), timedelta(seconds=1))
    if initial is None:
        assert NOON <= datetime.fromisoformat(source.initial) <= scans.periodic.clock()
    else:
        assert source.initial == initial

    row = await scans.run(source)
    again = await scans.run(source)

    assert (row.accepted, again.accepted, again.duplicates) == (3, 3, 0)
    assert row.last_value == (last or "2026-03-02T13:00:08Z")


def test_every_fault_of_a_folder_is_told_with_its_line(stage: Stage, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(
        SCAN.replace("fresh:", "Fresh:")
        .replace("*/15 * * * *", "often")
        .replace(":last", ":since")
        .replace("database: crm", "database: shop")
        .replace("type: alert", "type: alarm")
        .replace('"2026-01-01T00:00:00Z"', "yesterday")
        .replace("{{ name }} of", "{{ name of")
    )
    (tmp_path / "b.yaml").write_text(SCAN.replace("key: id", "keys: id"))
    (tmp_path / "c.yaml").write_text("fresh: {")

    with pytest.raises(SettingsError) as raised:
        load_sources(PeriodicSettings(folder=tmp_path), stage.catalog, NOON)

    told = {(fault.field, fault.code) for fault in raised.value.faults}
    assert told == {
        ("a.yaml:2", "name"),
        ("a.yaml:3", "schedule"),
        ("a.yaml:4", "database"),
        ("a.yaml:5", "query"),
        ("a.yaml:10", "initial"),
        ("a.yaml:12", "type"),
        ("a.yaml:2", "syntax"),
        ("b.yaml:2", "invalid"),
        ("c.yaml:1", "yaml"),
    }
    assert "TOCSIN_PERIODIC__DATABASES__SHOP" in str(raised.value)


def test_modules_are_imported_and_their_faults_told(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    for name, content in {
        "feeds_good": "from tocsin.periodic import *\n"
        "@periodic('0 8 * * *')\nasync def one(checkpoint):\n    yield None, 1\n",
        "feeds_bad": "from tocsin.periodic import *\n"
        "@periodic('8')\nasync def two(checkpoint):\n    yield None, 1\n",
        "feeds_broken": "1 / 0\n",
        "feeds_plain": "from tocsin.periodic import *\n@periodic('0 8 * * *')\ndef three(c): ...\n",
        "feeds_empty": "",
    }.items():
        (tmp_path / f"{name}.py").write_text(content)

    [source] = load_sources(PeriodicSettings(modules=["feeds_good"]), stage.catalog, NOON)
    assert (source.name, source.producer, source.kind) == ("one", "one", "python")
    names = ["feeds_bad", "feeds_broken", "feeds_plain", "feeds_empty", "feeds_missing"]
    with pytest.raises(SettingsError) as raised:
        load_sources(PeriodicSettings(modules=names), stage.catalog, NOON)

    assert [(fault.field, fault.code) for fault in raised.value.faults] == [
        ("feeds_bad.two", "schedule"),
        ("feeds_broken", "import"),
        ("feeds_plain", "import"),
        ("feeds_empty", "empty"),
        ("feeds_missing", "import"),
    ]
    for words in ("ZeroDivisionError: division by zero", "must be an async generator", "No module named"):
        assert words in str(raised.value)


def test_only_last_outside_of_quotes_and_comments_is_bound() -> None:
    query = """select ':last', e'it\\'s :last', "a:last", $$ :last $$, x::text /* :last */ from t
    where a > :last or :last is null -- :last
    ;"""

    bound = bind_last(query, "bigint")

    assert bound.count("$1::bigint") == 2
    assert bound.count(":last") == 6
    assert "a > $1::bigint or $1::bigint is null" in bound
    for wrong in ("select 1", "select :last, :first", "select :last, $2"):
        with pytest.raises(ValueError, match=r"last"):
            bind_last(wrong, "bigint")
