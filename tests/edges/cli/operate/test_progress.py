"""`tocsin progress` as an operator runs it."""

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.edges.command_line import Ran, run
from tocsin.domain.ids import new_lease_id
from tocsin.domain.timing.schedule import Schedule
from tocsin.engine.clock import utc_now
from tocsin.store.pool import Pool
from tocsin.store.sources import progress
from tocsin.store.sources.progress import Counts, Scheduled

WIDTH = 80


class Operator:
    """Somebody at a terminal."""

    def __init__(self, url: str, folder: Path) -> None:
        self._folder = folder
        self._settings = {"TOCSIN_DATABASE_URL": url, "COLUMNS": str(WIDTH)}

    async def runs(self, *arguments: str) -> Ran:
        return await asyncio.to_thread(run, ["progress", *arguments], self._settings, self._folder)


@pytest.fixture
def operator(database_url: str, tmp_path: Path) -> Operator:
    return Operator(database_url, tmp_path)


async def known(pool: Pool, name: str, **changes: Any) -> None:
    now = utc_now()
    fields: dict[str, Any] = {
        "name": name,
        "kind": "scan",
        "schedule": Schedule("*/15 * * * *"),
        "value_type": "timestamptz",
        "initial": "2026-01-01T00:00:00Z",
    }
    next_run_at = now - timedelta(minutes=1)
    await progress.register(pool, Scheduled(**fields | changes), next_run_at=next_run_at, now=now)


async def test_the_table_fits_eighty_columns(operator: Operator, pool: Pool) -> None:
    assert "No periodic producer is known yet" in (await operator.runs()).said
    await known(pool, "new_customers_of_the_week")
    await known(pool, "feed", kind="python", value_type=None, initial=None)
    lease, now = new_lease_id(), utc_now()
    next_run_at = await pool.fetchval("select next_run_at from progress where name = 'feed'")
    await progress.begin(pool, "feed", seen_next=next_run_at, lease=lease, until=now, now=now)
    await progress.count(pool, "feed", lease, Counts(123_456, 0, 2))
    await progress.fail(pool, "feed", lease, retry_at=now, error="ValueError: [bold]no[/bold] shop")

    ran, as_json = await operator.runs(), await operator.runs("--json")

    assert (ran.code, ran.err) == (0, "")
    table = ran.out.splitlines()[:3]
    assert max(map(len, table)) <= WIDTH
    assert table[0].split() == ["producer", "state", "last", "success", "next", "run", "accepted"]
    assert table[1].split()[:3] == ["feed", "failed", "-"]
    assert "123456" in table[1]
    assert "feed: failed 1 time in a row: ValueError: [bold]no[/bold] shop" in ran.out
    assert "feed: 2 rows were refused" in ran.out
    assert [record["state"] for record in as_json.json] == ["failed", "idle"]


async def test_a_run_is_asked_for(operator: Operator, pool: Pool) -> None:
    await known(pool, "feed")

    ran, as_json = await operator.runs("run", "feed"), await operator.runs("run", "feed", "--json")

    assert (ran.code, ran.said) == (0, "A worker runs feed within a second or so: tocsin progress")
    assert as_json.json["run_requested"] is True
    assert "now" in (await operator.runs()).out.splitlines()[1].split()


async def test_a_checkpoint_is_set_after_a_question(operator: Operator, pool: Pool) -> None:
    await known(pool, "feed")
    to = ["rewind", "feed", "--to", "2026-02-01T03:00:00+03:00"]

    asked = await operator.runs(*to)
    assert asked.code == 1
    assert "Let feed continue from 2026-02-01T03:00:00+03:00?" in asked.said
    assert await pool.fetchval("select last_value from progress") == '"2026-01-01T00:00:00Z"'
    done = await operator.runs(*to, "--yes")

    assert (done.code, done.said) == (0, "The next run of feed continues from 2026-02-01T00:00:00Z.")
    assert await pool.fetchval("select last_value from progress") == '"2026-02-01T00:00:00Z"'


@pytest.mark.parametrize(
    ("value_type", "text", "stored"),
    [
        ("text", "17", '"17"'),
        ("bigint", "17", "17"),
        (None, '{"page": 2}', '{"page": 2}'),
        (None, "x", '"x"'),
    ],
)
async def test_a_checkpoint_is_read_as_its_producer_keeps_it(
    operator: Operator, pool: Pool, value_type: Any, text: str, stored: str
) -> None:
    await known(pool, "feed", value_type=value_type, initial=None)

    await operator.runs("rewind", "feed", "--to", text, "--yes")

    assert await pool.fetchval("select last_value from progress") == stored


async def test_what_cannot_be_done_is_told(operator: Operator, pool: Pool) -> None:
    await known(pool, "feed")

    unknown, wrong = (
        await operator.runs("run", "nobody"),
        await operator.runs("rewind", "feed", "--to", "yesterday", "--yes"),
    )

    assert (unknown.code, wrong.code) == (1, 2)
    assert unknown.said == "error: There is no periodic producer 'nobody'; there are feed."
    assert "--to must be a time with its offset" in wrong.said
