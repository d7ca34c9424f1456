from datetime import UTC, datetime, timedelta
from uuid import uuid4

from tocsin.domain.ids import uuid7
from tocsin.store import keys
from tocsin.store.keys import KeyRow, LiveKey
from tocsin.store.pool import Pool

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def key(producer: str = "billing") -> KeyRow:
    return KeyRow(
        id=uuid7(),
        producer=producer,
        role="producer",
        hint="wxyz",
        created_at=NOW,
        last_used_at=None,
        revoked_at=None,
    )


async def test_a_key_is_found_by_its_digest_until_it_is_revoked(pool: Pool) -> None:
    made = key()
    await keys.create(pool, made, b"digest")

    found = await keys.find_live(pool, b"digest")
    assert found == LiveKey(id=made.id, producer="billing", role="producer", seconds_left=None)
    assert await keys.find_live(pool, b"other") is None
    revoked = await keys.revoke(pool, made.id, NOW)
    assert revoked is not None
    assert revoked.revoked_at == NOW
    assert await keys.find_live(pool, b"digest") is None


async def test_revoking_again_keeps_the_first_time(pool: Pool) -> None:
    made = key()
    await keys.create(pool, made, b"digest")
    first = await keys.revoke(pool, made.id, NOW)

    assert await keys.revoke(pool, made.id, NOW + timedelta(days=1)) == first
    assert await keys.revoke(pool, uuid4(), NOW) is None


async def test_keys_are_listed_newest_first_with_their_last_use(pool: Pool) -> None:
    first, second = key("billing"), key("crm")
    await keys.create(pool, first, b"one")
    await keys.create(pool, second, b"two")
    await keys.touch(pool, [first.id], NOW + timedelta(minutes=5))
    await keys.touch(pool, [first.id], NOW)

    listed = await keys.list_all(pool)

    assert [(row.producer, row.last_used_at) for row in listed] == [
        ("crm", None),
        ("billing", NOW + timedelta(minutes=5)),
    ]
