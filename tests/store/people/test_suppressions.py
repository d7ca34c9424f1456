import asyncio
from datetime import UTC, datetime, timedelta
from uuid import uuid4

from tocsin.store.people import suppressions
from tocsin.store.people.suppressions import Suppression
from tocsin.store.pool import Pool

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
MANY = 100


async def test_at_first_every_address_is_sent_mail(pool: Pool) -> None:
    assert await suppressions.of(pool, ["ada@example.org"]) == frozenset()
    assert await suppressions.of(pool, []) == frozenset()
    assert await suppressions.page(pool, limit=MANY) == []


async def test_a_suppression_is_kept_with_its_reason(pool: Pool) -> None:
    delivery_id = uuid4()

    made = await suppressions.suppress(
        pool, "Ada@Example.org", reason="550 5.1.1", detail="no such user", delivery_id=delivery_id, now=NOW
    )

    assert made == Suppression(
        address="ada@example.org",
        reason="550 5.1.1",
        detail="no such user",
        delivery_id=delivery_id,
        suppressed_at=NOW,
    )
    assert await suppressions.page(pool, limit=MANY) == [made]


async def test_addresses_are_found_however_they_are_capitalised(pool: Pool) -> None:
    await suppressions.suppress(pool, "ada@example.org", reason="x", now=NOW)
    await suppressions.suppress(pool, "Jürgen@Example.org", reason="x", now=NOW)
    asked = ["ADA@example.org", "ada@EXAMPLE.org", "bob@example.org", "JÜRGEN@example.org"]

    assert await suppressions.of(pool, asked) == frozenset(asked) - {"bob@example.org"}


async def test_said_again_the_first_time_and_the_last_reason_hold(pool: Pool) -> None:
    await suppressions.suppress(pool, "ada@example.org", reason="first", now=NOW)
    again = await suppressions.suppress(
        pool, "ADA@example.org", reason="second", now=NOW + timedelta(hours=1)
    )

    assert (again.reason, again.suppressed_at) == ("second", NOW)
    assert await suppressions.page(pool, limit=MANY) == [again]


async def test_what_was_removed_is_sent_mail_again(pool: Pool) -> None:
    await suppressions.suppress(pool, "ada@example.org", reason="x", now=NOW)

    assert await suppressions.remove(pool, "ADA@example.org")
    assert not await suppressions.remove(pool, "ada@example.org")
    assert await suppressions.of(pool, ["ada@example.org"]) == frozenset()


async def test_pages_go_back_in_time_and_lose_nothing(pool: Pool) -> None:
    for number in range(7):
        # Several share a moment.
        await suppressions.suppress(
            pool, f"a{number}@example.org", reason="x", now=NOW + timedelta(hours=number // 3)
        )
    seen: list[Suppression] = []
    before = suppressions.NEWEST
    while rows := await suppressions.page(pool, before=before, limit=2):
        seen += rows
        before = suppressions.SuppressionCursor(rows[-1].suppressed_at, rows[-1].address)

    assert [row.address[:2] for row in seen] == ["a6", "a5", "a4", "a3", "a2", "a1", "a0"]


async def test_many_who_say_the_same_at_once_leave_one_row(pool: Pool) -> None:
    await asyncio.gather(
        *(
            suppressions.suppress(pool, f"{name}@example.org", reason=str(number), now=NOW)
            for number in range(10)
            for name in ("ada", "ADA", "bob")
        )
    )

    assert [row.address for row in await suppressions.page(pool, limit=MANY)] == [
        "bob@example.org",
        "ada@example.org",
    ]


async def test_an_address_that_looks_like_sql_is_an_address(pool: Pool) -> None:
    address = "'; drop table suppressed_addresses; --@example.org"
    await suppressions.suppress(pool, address, reason="x", now=NOW)

    assert await suppressions.of(pool, [address, "%@example.org"]) == {address}
