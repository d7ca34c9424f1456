from datetime import timedelta

import msgspec

from tests.edges.cli.conftest import WIDTH, Tocsin
from tests.rows import NEVER, NOW, add_carrier, add_delivery, add_digest, add_notification, add_waiting
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


async def test_a_count_that_ends_at_a_thousand_says_so(tocsin: Tocsin, pool: Pool) -> None:
    many, exact = await add_waiting(pool, 1_001), await add_waiting(pool, 1_000)
    await pool.execute(
        "insert into broadcasts (notification_id, state, expanded, total, chunk_size, next_at)"
        " values ($1, 'finished', 1000000, 1000000, 1, $2)",
        many,
        NOW,
    )

    shown, whole = [await tocsin("show", str(each)) for each in (many, exact)]
    listed = await tocsin("list", "--from", "2026-01-01T00:00:00Z")

    assert "  1,000+ deliveries\n" in shown.out
    assert "broadcast finished: 1,000,000 of 1,000,000 people have their deliveries\n" in shown.out
    assert "… and more: only the first 1,000 are shown" in shown.out
    assert "  1,000 deliveries\n" in whole.out
    assert "more that match, of 1,000+ deliveries" in listed.out


async def test_the_digest_of_a_member_is_shown(tocsin: Tocsin, pool: Pool) -> None:
    notification_id, digest_id = await add_notification(pool), await add_digest(pool)
    now = await pool.fetchval("select now()")
    carrier_id = await add_carrier(pool, digest_id, due_at=now + timedelta(hours=1))
    detail = f"sent as part of digest {digest_id}, delivery {carrier_id}"
    step = {"rule": "digest", "result": "pass", "detail": detail, "at": now}
    await add_delivery(
        pool,
        notification_id=notification_id,
        digest_id=digest_id,
        state="sent",
        settled_at=now,
        provider="fcm",
        decisions=msgspec.json.encode([step]).decode(),
    )
    await add_delivery(
        pool,
        "bob",
        notification_id=notification_id,
        digest_id=digest_id,
        state="scheduled",
        due_at=NEVER,
        held_by="digest",
    )

    shown = await tocsin("show", str(notification_id))
    listed = await tocsin("list", "--from", "2026-01-01T00:00:00Z")

    assert f"digest  {detail}\n" in shown.out
    assert f"waits: digest {digest_id}, until " in shown.out
    assert "; due 20" in shown.out
    assert f"held by digest; waits: digest {digest_id}, until " in listed.out
    assert "due -" not in listed.out


async def test_the_head_of_a_timeline_fits_a_terminal(tocsin: Tocsin, pool: Pool) -> None:
    key = "demo-01a1e180-f5e5-7000-8678-82cce6dd6037"
    notification_id = await add_notification(pool, producer="demo", idempotency_key=key, org_id="o" * 90)

    shown = await tocsin("show", str(notification_id), TTY_COMPATIBLE="1", COLUMNS=str(WIDTH))
    piped = await tocsin("show", str(notification_id))

    assert max(map(len, shown.out.splitlines())) <= WIDTH
    assert f"producer demo, key {key}, " in piped.out.splitlines()[1]
    assert f"organisation {'o' * 90}" in piped.out.splitlines()
