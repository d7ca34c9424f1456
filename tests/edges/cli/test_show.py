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


async def test_what_the_device_reported_comes_after_what_the_provider_answered(
    tocsin: Tocsin, pool: Pool
) -> None:
    notification_id = await add_notification(pool)
    now = await pool.fetchval("select accepted_at from notifications where id = $1", notification_id)
    taken = {"settled_at": now + timedelta(milliseconds=40), "provider": "fcm", "provider_message_id": "m-1"}
    reported, confirmed = [
        await add_delivery(
            pool, user, notification_id=notification_id, state="delivered", attempts=1, **taken
        )
        for user in ("ada", "bob")
    ]
    await pool.execute(
        "insert into receipts (delivery_id, received_at, delivered_at, opened_at) values ($1, $2, $2, $3)",
        reported,
        now + timedelta(seconds=2),
        now + timedelta(minutes=5),
    )

    told = await tocsin("show", str(notification_id), TTY_COMPATIBLE="1")
    encoded = (await tocsin("show", str(notification_id), "--json")).json

    lines = [line.strip("│├└─ ") for line in told.out.splitlines()]
    first = next(number for number, line in enumerate(lines) if "delivered push:user:ada" in line)
    assert lines[first + 1 : first + 4] == [
        "+40.0 ms  sent  accepted by fcm as m-1",
        "+2000.0 ms  delivered  reported by the device",
        "+0:05:00  opened  reported by the device",
    ]
    assert "delivered  confirmed by fcm's receipt" in lines
    assert max(map(len, told.out.splitlines())) <= WIDTH
    events = {
        each["delivery_id"]: [receipt["event"] for receipt in each["receipts"]]
        for each in encoded["deliveries"]
    }
    assert events == {str(reported): ["delivered", "opened"], str(confirmed): []}
