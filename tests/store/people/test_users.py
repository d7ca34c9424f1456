from typing import Any

import msgspec

from tests.rows import NOW
from tocsin.domain.ids import uuid7
from tocsin.store.people import users
from tocsin.store.people.users import UserRow
from tocsin.store.pool import Pool
from tocsin.store.sources import refused
from tocsin.store.sources.refused import RefusedIntent


def user(user_id: str, **changes: Any) -> UserRow:
    fields: dict[str, Any] = {
        "user_id": user_id,
        "email": None,
        "locale": None,
        "timezone": None,
        "gmt_offset_seconds": None,
        "updated_at": NOW,
    }
    return UserRow(**fields | changes)


async def test_people_are_stored_together_and_read_one_by_one(pool: Pool) -> None:
    ada = user("ada", email="ada@example.com", locale="tr-TR", timezone="Europe/Istanbul")
    bob = user("bob", gmt_offset_seconds=-12_600)

    await users.put(pool, [bob, ada])

    assert await users.get(pool, "ada") == ada
    assert await users.get(pool, "bob") == bob
    assert await users.get(pool, "eve") is None


async def test_what_was_known_before_is_replaced(pool: Pool) -> None:
    await users.put(pool, [user("ada", email="old@example.com", locale="tr")])
    newer = user("ada", locale="ko")

    await users.put(pool, [newer])

    assert await users.get(pool, "ada") == newer


async def test_nobody_to_store_is_no_fault(pool: Pool) -> None:
    await users.put(pool, [])


async def test_refused_intents_are_listed_newest_first_page_by_page(pool: Pool) -> None:
    kept = [
        RefusedIntent(
            id=uuid7(),
            producer="shop",
            source="http",
            code="invalid_intent",
            type=None,
            idempotency_key=None,
            faults="[]",
            content=f"{number}",
            refused_at=NOW,
        )
        for number in range(3)
    ]
    await refused.record(pool, kept)

    first = await refused.list_recent(pool, uuid7(), 2)
    rest = await refused.list_recent(pool, first[-1].id, 2)

    assert [*first, *rest] == kept[::-1]
    assert msgspec.json.decode(first[0].faults) == []
