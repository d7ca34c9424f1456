"""`tocsin suppressions` as an operator runs it."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from tests.edges.command_line import Ran, run
from tocsin.store.people import suppressions
from tocsin.store.pool import Pool

Tocsin: TypeAlias = Callable[..., Awaitable[Ran]]


@pytest.fixture
def tocsin(database_url: str, tmp_path: Path) -> Tocsin:
    """Return the command line of an installation with its own database."""
    environment = {"TOCSIN_DATABASE_URL": database_url, "COLUMNS": "200"}

    async def command(*arguments: str) -> Ran:
        return await asyncio.to_thread(run, ["suppressions", *arguments], environment, tmp_path)

    return command


async def test_addresses_are_suppressed_listed_and_let_go(tocsin: Tocsin, pool: Pool) -> None:
    assert (await tocsin("list")).out == "No address is suppressed.\n"

    added = await tocsin("add", "Ada@Example.org", "--reason", "[/red] asked by phone")
    other = await tocsin("add", "bob@example.org", "--json")
    listed, as_json, newest = (
        await tocsin("list"),
        await tocsin("list", "--json"),
        await tocsin("list", "--limit", "1", "--json"),
    )

    assert (added.code, added.out) == (0, "ada@example.org is sent no mail.\n")
    assert (other.json["address"], other.json["reason"]) == ("bob@example.org", "manual")
    assert [line.split()[0] for line in listed.out.splitlines()] == [
        "address",
        "bob@example.org",
        "ada@example.org",
    ]
    assert "[/red] asked by phone" in listed.out
    assert [row["address"] for row in as_json.json] == ["bob@example.org", "ada@example.org"]
    assert [row["address"] for row in newest.json] == ["bob@example.org"]

    removed = await tocsin("remove", "ADA@example.org")
    gone = await tocsin("remove", "bob@example.org", "--json")

    assert removed.out == "ada@example.org is sent mail again.\n"
    assert gone.json == {"address": "bob@example.org"}
    assert await suppressions.page(pool, limit=10) == []


async def test_a_wrong_call_is_told_and_changes_nothing(tocsin: Tocsin, pool: Pool) -> None:
    nameless, blank, absent = (
        await tocsin("add", "ada"),
        await tocsin("add", "ada@example.org", "--reason", " "),
        await tocsin("remove", "ada@example.org"),
    )

    assert (nameless.code, blank.code, absent.code) == (2, 2, 1)
    assert "error: 'ada' is not a mail address" in nameless.err
    assert "--reason must be 1 to 500 characters" in blank.err
    assert "ada@example.org is not suppressed." in absent.err
    assert await suppressions.page(pool, limit=10) == []
