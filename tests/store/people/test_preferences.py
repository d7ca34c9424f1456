import asyncio
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from tocsin.domain.people.preferences import MOST_CATEGORIES, Changes, Choice, allows
from tocsin.store.people import preferences
from tocsin.store.people.preferences import TooManyCategories
from tocsin.store.pool import Pool

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


async def store(pool: Pool, user_id: str, choices: Any) -> None:
    """Put choices into the table as an import would, whatever they are."""
    await pool.execute(
        "insert into preferences (user_id, choices, updated_at) values ($1, $2, $3)",
        user_id,
        msgspec.json.encode(choices).decode(),
        NOW,
    )


async def stored(pool: Pool, user_id: str) -> Any:
    return msgspec.json.decode(
        await pool.fetchval("select choices from preferences where user_id = $1", user_id)
    )


async def test_who_never_chose_has_no_choices(pool: Pool) -> None:
    assert await preferences.get(pool, "ada") == {}


@pytest.mark.parametrize(
    ("before", "changes", "after"),
    [
        (None, {"orders": {"push": False}}, {"orders": {"push": False}}),
        (None, {}, {}),
        (None, {"orders": None, "offers": {"push": None}, "news": {}}, {}),
        ({"orders": {"push": False}}, {}, {"orders": {"push": False}}),
        (
            {"orders": {"push": False}, "offers": {"push": True}},
            {"orders": {"email": False}},
            {"orders": {"push": False, "email": False}, "offers": {"push": True}},
        ),
        ({"orders": {"push": False}}, {"orders": {"push": True}}, {"orders": {"push": True}}),
        (
            {"orders": {"push": False, "email": True}},
            {"orders": {"push": None}},
            {"orders": {"email": True}},
        ),
        ({"orders": {"push": False}}, {"orders": {"push": None}}, {}),
        ({"orders": {"push": False}, "offers": {"push": True}}, {"orders": None}, {"offers": {"push": True}}),
        ({"orders": {"push": False}}, {"orders": {}}, {"orders": {"push": False}}),
        ({"orders": "never"}, {"orders": {"push": False}}, {"orders": {"push": False}}),
        ({"orders": {"push": "never"}}, {"orders": {"push": False}}, {"orders": {"push": False}}),
        (["never"], {"orders": {"push": False}}, {"orders": {"push": False}}),
    ],
)
async def test_changes_are_laid_over_what_was_chosen(
    pool: Pool, before: Any, changes: Changes, after: Any
) -> None:
    if before is not None:
        await store(pool, "ada", before)

    assert await preferences.change(pool, "ada", changes, NOW) == after
    assert await preferences.get(pool, "ada") == after
    assert await stored(pool, "ada") == after


async def test_a_change_leaves_malformed_neighbours_as_they_are(pool: Pool) -> None:
    await store(pool, "ada", {"orders": "never", "offers": {"push": 1, "email": False}})

    after = await preferences.change(pool, "ada", {"offers": {"inbox": True}}, NOW)

    assert after == {"offers": {"email": False, "inbox": True}}
    assert await stored(pool, "ada") == {
        "orders": "never",
        "offers": {"push": 1, "email": False, "inbox": True},
    }


async def test_changes_made_at_once_all_count(pool: Pool) -> None:
    changes: list[Changes] = [{f"c{number}": {"push": False}} for number in range(60)]
    changes += [{"shared": {channel: False}} for channel in ("push", "email", "inbox", "webhook")]

    await asyncio.gather(*(preferences.change(pool, "ada", change, NOW) for change in changes))

    choices = await preferences.get(pool, "ada")
    assert choices.pop("shared") == {"push": False, "email": False, "inbox": False, "webhook": False}
    assert choices == {f"c{number}": {"push": False} for number in range(60)}


async def test_categories_are_bounded_but_taking_away_and_leaving_are_not(pool: Pool) -> None:
    full: Changes = {f"c{number}": {"push": False} for number in range(MOST_CATEGORIES)}
    await preferences.change(pool, "ada", full, NOW)

    refused = await preferences.change(pool, "ada", {"one_more": {"push": True}}, NOW)
    assert refused == TooManyCategories(MOST_CATEGORIES)
    assert "one_more" not in await preferences.get(pool, "ada")

    swapped = await preferences.change(pool, "ada", {"one_more": {"push": True}, "c0": None}, NOW)
    assert isinstance(swapped, dict)
    assert len(swapped) == MOST_CATEGORIES

    await preferences.refuse(pool, "ada", "newsletter", "email", NOW)
    assert (await preferences.get(pool, "ada"))["newsletter"] == {"email": False}
    taken = await preferences.change(pool, "ada", {"c1": None}, NOW)
    assert isinstance(taken, dict)
    assert "c1" not in taken


async def test_refusing_again_changes_nothing_else(pool: Pool) -> None:
    await preferences.change(pool, "ada", {"orders": {"email": True, "push": True}}, NOW)

    for _ in range(2):
        await preferences.refuse(pool, "ada", "orders", "email", NOW)

    assert await preferences.get(pool, "ada") == {"orders": {"email": False, "push": True}}


async def test_what_is_malformed_reads_as_yes_and_is_said_once_for_each_person(pool: Pool) -> None:
    await store(pool, "mal-1", {"orders": {"push": "no"}, "offers": {"push": False}})
    await store(pool, "mal-2", ["orders"])

    with capture_logs() as logs:
        for _ in range(3):
            assert await preferences.get(pool, "mal-1") == {"offers": {"push": False}}
            assert await preferences.get(pool, "mal-2") == {}

    assert allows(await stored(pool, "mal-1"), "orders", "push") is Choice.MALFORMED_YES
    assert allows(await stored(pool, "mal-1"), "offers", "push") is Choice.NO
    assert allows(await stored(pool, "mal-2"), "orders", "push") is Choice.MALFORMED_YES
    assert sorted((line["event"], line["user_id"], line["log_level"]) for line in logs) == [
        ("malformed preferences ignored", "mal-1", "warning"),
        ("malformed preferences ignored", "mal-2", "warning"),
    ]
