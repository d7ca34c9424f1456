"""What a directory of another service says of people, as it is stored."""

from datetime import timedelta

from tests.rows import NOW
from tocsin.store.people import users
from tocsin.store.pool import Pool

LATER = NOW + timedelta(seconds=1)
ROWS = "select user_id, email, locale, updated_at, xmax::text as xmax from users order by user_id"


async def test_people_are_written_when_they_are_new_or_changed(pool: Pool) -> None:
    known = {"ada": ("ada@example.com", "de"), "eve": (None, None), "tom": ("tom@example.com", None)}
    await users.refresh(pool, known, NOW)
    before = {row["user_id"]: row for row in await pool.fetch(ROWS)}

    await users.refresh(pool, known | {"eve": (None, "tr"), "zoe": ("zoe@example.com", None)}, LATER)

    after = {row["user_id"]: row for row in await pool.fetch(ROWS)}
    assert {name: tuple(row)[1:4] for name, row in after.items()} == {
        "ada": ("ada@example.com", "de", NOW),
        "eve": (None, "tr", LATER),
        "tom": ("tom@example.com", None, NOW),
        "zoe": ("zoe@example.com", None, LATER),
    }
    # Not even locked: a lock is a write.
    assert [after[name] for name in ("ada", "tom")] == [before[name] for name in ("ada", "tom")]
