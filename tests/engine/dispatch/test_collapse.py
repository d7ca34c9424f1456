from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from tests.engine.stage import Stage, StubProvider
from tests.waiting import found, until
from tocsin.domain.delivery.outcome import Retry
from tocsin.store.deliveries.holds import cancel

HOUR = timedelta(hours=1)


async def score(stage: Stage, key: str, user: str = "ada", **changes: Any) -> UUID:
    """Accept a message that replaces older ones about the same game."""
    fields: dict[str, Any] = {"type": "plain", "payload": {}, "collapse_key": "game", "idempotency_key": key}
    return await stage.accept(user, **fields | changes)


@pytest.fixture
async def provider(stage: Stage) -> StubProvider:
    await stage.device("ada")
    return StubProvider()


async def test_of_two_that_are_due_only_the_newer_is_sent(stage: Stage, provider: StubProvider) -> None:
    older, newer = await score(stage, "1"), await score(stage, "2")
    async with stage.working(provider):
        await stage.settled(newer, "sent")
        (row,) = await stage.settled(older, "skipped")

    assert row["reason"] == "collapsed"
    assert [message.notification_id for message in provider.arrived] == [newer]


async def test_one_that_is_due_later_replaces_nothing(stage: Stage, provider: StubProvider) -> None:
    older = await score(stage, "1")
    later = await score(stage, "2", send_at=stage.clock() + timedelta(days=300))
    async with stage.working(provider):
        await stage.settled(older, "sent")

    assert [row["state"] for row in await stage.deliveries(later)] == ["scheduled"]


async def test_one_that_was_cancelled_or_expired_replaces_nothing(
    stage: Stage, provider: StubProvider
) -> None:
    older = await score(stage, "1")
    await cancel(stage.pool, await score(stage, "2"), stage.clock())
    await score(stage, "3", ttl_seconds=1)
    stage.clock.advance(timedelta(seconds=2))
    async with stage.working(provider):
        await stage.settled(older, "sent")


async def test_another_type_or_another_person_replaces_nothing(stage: Stage, provider: StubProvider) -> None:
    await stage.device("ada:game:plain")
    first = await score(stage, "1", collapse_key="x")
    other_type = await score(stage, "2", collapse_key="x", type="urgent")
    # Their stored keys are the same text: user `ada` with key `game:plain:x`, user `ada:game:plain` with `x`.
    mine = await score(stage, "3", collapse_key="game:plain:x")
    theirs = await score(stage, "4", user="ada:game:plain", collapse_key="x")
    async with stage.working(provider):
        for each in (first, other_type, mine, theirs):
            await stage.settled(each, "sent")


async def test_one_that_was_sent_replaces_an_older_one_that_is_retried(
    stage: Stage, provider: StubProvider
) -> None:
    provider.script("ada", Retry("UNAVAILABLE", after=HOUR))
    async with stage.working(provider):
        older = await score(stage, "1")
        await until(lambda: len(provider.arrived) == 1)
        await stage.settled(older, "retrying")
        newer = await score(stage, "2")
        await stage.settled(newer, "sent")
        (row,) = await stage.settled(older, "skipped")
        stage.clock.advance(2 * HOUR)

    assert row["reason"] == "collapsed"
    assert [message.notification_id for message in provider.arrived] == [older, newer]


async def test_one_that_a_toggle_holds_replaces_nothing(stage: Stage, provider: StubProvider) -> None:
    """The newer one was held while its type was off; the older one was not claimed before."""
    older = await score(stage, "1", send_at=stage.clock() + HOUR)
    newer = await score(stage, "2")
    await stage.pool.execute(
        "update deliveries set held_by = 'type:other', due_at = 'infinity' where notification_id = $1", newer
    )
    stage.clock.advance(2 * HOUR)
    await stage.pool.execute(
        "insert into toggles (name, enabled, updated_at, updated_by)"
        " values ('type:other', false, now(), 'ops')"
    )
    async with stage.working(provider):
        await stage.settled(older, "sent")

        async def still_held() -> bool:
            (row,) = await stage.deliveries(newer)
            return bool(row["held_by"])

        await found(still_held)
