"""`tocsin users erase` where nobody can answer its question, and `export` to a file."""

from pathlib import Path

import pytest

from tests.edges.cli.conftest import Tocsin
from tests.rows import add_user
from tocsin.store.pool import Pool


@pytest.mark.parametrize(
    "command", [("users", "erase", "ada"), ("progress", "rewind", "invoices", "--to", "7")]
)
async def test_without_an_answer_it_tells_how_to_go_on(
    tocsin: Tocsin, pool: Pool, command: tuple[str, ...]
) -> None:
    await add_user(pool, "ada")

    ended = await tocsin(*command)

    assert ended.code == 1
    assert "pass --yes to go on without the question" in ended.said
    assert await pool.fetchval("select count(*) from users") == 1


async def test_with_yes_nothing_is_asked(tocsin: Tocsin, pool: Pool) -> None:
    await add_user(pool, "ada")

    ended = await tocsin("users", "erase", "ada", "--yes")

    assert (ended.code, "[y/N]" in ended.said) == (0, False)
    assert await pool.fetchval("select count(*) from users") == 0


async def test_an_export_is_written_and_one_that_cannot_be_is_no_traceback(
    tocsin: Tocsin, pool: Pool, tmp_path: Path
) -> None:
    await add_user(pool, "ada")

    written = await tocsin("users", "export", "ada", "--output", "ada.json")
    folder = await tocsin("users", "export", "ada", "--output", str(tmp_path))
    missing = await tocsin("users", "export", "ada", "--output", "nowhere/ada.json")

    assert written.code == 0
    assert (tmp_path / "ada.json").stat().st_mode & 0o777 == 0o600
    assert (folder.code, folder.err) == (2, f"error: {tmp_path} cannot be written: Is a directory.\n")
    assert (missing.code, "nowhere/ada.json cannot be written" in missing.said) == (2, True)
