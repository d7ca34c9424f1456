"""`tocsin users erase` where nobody can answer its question."""

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
