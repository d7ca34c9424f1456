from datetime import timedelta

from tests.edges.cli.conftest import WIDTH, Tocsin
from tests.rows import add_delivery, add_notification
from tocsin.store.pool import Pool


async def test_a_failed_delivery_is_shown_with_what_to_do(tocsin: Tocsin, pool: Pool) -> None:
    notification_id = await add_notification(pool)
    now = await pool.fetchval("select now()")
    await add_delivery(
        pool,
        notification_id=notification_id,
        state="rejected",
        attempts=1,
        last_error_code="SENDER_ID_MISMATCH",
        last_error="SenderId mismatch",
        settled_at=now,
    )

    told = await tocsin("show", str(notification_id))

    assert "rejected push:user:ada" in told.out
    assert "SENDER_ID_MISMATCH (The token belongs to another Firebase project." in told.out


async def test_a_notification_is_shown_as_a_tree_of_what_happened_in_order(
    tocsin: Tocsin, pool: Pool
) -> None:
    notification_id = await add_notification(pool)
    now = await pool.fetchval("select accepted_at from notifications where id = $1", notification_id)
    delivery_id = await add_delivery(
        pool,
        notification_id=notification_id,
        state="dead",
        attempts=2,
        last_error_code="UNAVAILABLE",
        last_error="Try again later",
        settled_at=now + timedelta(days=2, hours=3),
    )
    await add_delivery(pool, "bob", notification_id=notification_id, state="sent", settled_at=now)
    await pool.execute(
        "insert into attempts (delivery_id, at, outcome, code, detail)"
        " values ($1, $2, 'retry', 'INTERNAL', '')",
        delivery_id,
        now + timedelta(milliseconds=1500),
    )

    told = await tocsin("show", str(notification_id), TTY_COMPATIBLE="1")
    piped = await tocsin("show", str(notification_id))

    lines = told.out.splitlines()
    starts = [
        next(number for number, line in enumerate(lines) if text in line)
        for text in (
            "2 deliveries",
            "├── dead push:user:ada",
            "│   ├──  +1500.0 ms  retry  INTERNAL",
            "+2 days, 3:00:00  dead",
            "│   └── Try again later",
            "└── sent push:user:bob",
        )
    ]
    assert starts == sorted(starts)
    assert max(map(len, lines)) <= WIDTH
    whole = next(line for line in piped.out.splitlines() if "+2 days, 3:00:00  dead" in line)
    assert len(whole) > WIDTH
