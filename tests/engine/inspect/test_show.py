"""What is shown of a notification: bounded, however often it was tried, and due by the person's own clock."""

from datetime import UTC, datetime, timedelta

from tests.engine.stage import Stage
from tocsin.engine.inspect.search import search
from tocsin.engine.inspect.show import MOST_ATTEMPTS, show
from tocsin.wire.filters import DeliveryFilter

TEN = datetime(2026, 1, 17, 10, 0)  # noqa: DTZ001 - a wall time
OWN_TEN = {
    "Asia/Tokyo": datetime(2026, 1, 17, 1, 0, tzinfo=UTC),
    "America/New_York": datetime(2026, 1, 17, 15, 0, tzinfo=UTC),
    "nowhere": datetime(2026, 1, 17, 7, 0, tzinfo=UTC),
}


async def test_only_the_newest_attempts_of_a_delivery_are_shown(stage: Stage) -> None:
    """One that recovers for weeks is tried thousands of times."""
    notification_id = await stage.accept("ada", "bob", type="plain", payload={})
    ada, bob = await stage.deliveries(notification_id)
    now = stage.clock()
    tries = [(ada["id"], number) for number in range(MOST_ATTEMPTS + 10)]
    tries += [(bob["id"], number) for number in range(MOST_ATTEMPTS)]
    await stage.pool.executemany(
        "insert into attempts (delivery_id, outcome, code, detail, at) values ($1, 'retry', $2, '', $3)",
        [(each, f"{number}", now + timedelta(seconds=number)) for each, number in tries],
    )
    async with stage.pool.acquire() as connection:
        shown = await show(connection, notification_id, now)

    assert shown is not None
    codes = {each.delivery_id: [attempt.code for attempt in each.attempts] for each in shown.deliveries}
    assert codes[ada["id"]] == [f"{number}" for number in range(10, MOST_ATTEMPTS + 10)]
    assert codes[bob["id"]] == [f"{number}" for number in range(MOST_ATTEMPTS)]
    truncated = {each.delivery_id: each.attempts_truncated for each in shown.deliveries}
    assert truncated == {ada["id"]: True, bob["id"]: False}


async def test_a_wall_time_is_shown_as_due_when_the_persons_own_clock_shows_it(stage: Stage) -> None:
    """It is stored as due when the time comes in the zone furthest ahead: there it is decided first."""
    stage.clock.move_to(datetime(2026, 1, 15, 12, 0, tzinfo=UTC))
    for zone in ("Asia/Tokyo", "America/New_York"):
        await stage.pool.execute(
            "insert into users (user_id, timezone, updated_at) values ($1, $1, $2)", zone, stage.clock()
        )
    notification_id = await stage.accept(*OWN_TEN, type="plain", payload={}, send_at_local=TEN)

    for now in (stage.clock(), datetime(2026, 1, 16, 21, 0, tzinfo=UTC)):
        shown = await show(stage.pool, notification_id, now, "Europe/Istanbul")
        page = await search(stage.pool, DeliveryFilter(), now, default_zone="Europe/Istanbul")

        assert shown is not None
        (listed,) = page.items
        assert (shown.send_at_local, listed.send_at_local) == (TEN, TEN)
        for deliveries in (shown.deliveries, listed.deliveries):
            assert {each.recipient: each.due_at for each in deliveries} == {
                f"user:{zone}": due_at for zone, due_at in OWN_TEN.items()
            }
        reasons = {each.recipient: each.waiting_for for each in shown.deliveries}
        assert reasons["user:Asia/Tokyo"] == (
            "asked for 2026-01-17 10:00 Asia/Tokyo (from the person), until 2026-01-17 01:00:00 UTC"
        )
        assert reasons["user:nowhere"] == (
            "asked for 2026-01-17 10:00 Europe/Istanbul (from the default), until 2026-01-17 07:00:00 UTC"
        )
