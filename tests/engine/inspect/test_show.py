"""What is shown of a notification is bounded, however often it was tried."""

from datetime import timedelta

from tests.engine.stage import Stage
from tocsin.engine.inspect.show import MOST_ATTEMPTS, show


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
