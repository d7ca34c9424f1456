"""Replays of dead letters: at a rate, each delivery once, by the rules of any delivery."""

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from tests.engine.settle.replaying import add_dead, batch, finished, start
from tests.engine.stage import Stage, StubProvider, a_provider
from tests.rows import add_delivery
from tests.waiting import found, until
from tocsin.domain.delivery.outcome import Gone, Rejected
from tocsin.domain.timing.quiet_hours import QuietHoursSettings
from tocsin.engine.inspect.dead_letters import stop_replay
from tocsin.engine.retention.erase import Eraser
from tocsin.engine.settle.replays import run_batch
from tocsin.store.dead_letters import replays


async def test_a_rejected_push_is_sent_by_a_replay_and_its_old_attempt_stays_visible(stage: Stage) -> None:
    await stage.device()
    provider = StubProvider()
    provider.script("ada", Rejected("INVALID_ARGUMENT", "too long"))
    async with stage.working(provider):
        notification_id = await stage.accept("ada", type="plain", payload={})
        await stage.settled(notification_id, "rejected")

        replay = await finished(stage, await start(stage, code="INVALID_ARGUMENT"))
        (row,) = await stage.settled(notification_id, "sent")

    assert (replay.state, replay.replayed, replay.left_out) == ("finished", 1, {})
    assert row["attempts"] == 1
    assert '"replayed by ada' in row["decisions"]
    attempts = await stage.pool.fetch("select outcome, code from attempts where delivery_id = $1", row["id"])
    assert [tuple(each) for each in attempts] == [("rejected", "INVALID_ARGUMENT")]
    assert len(provider.arrived) == 2


async def test_what_is_gone_goes_to_the_devices_that_do_not_have_it(stage: Stage) -> None:
    await stage.device(token="old phone")
    await stage.device(token="tablet")
    provider, other = StubProvider(), a_provider("apns")
    provider.script("old phone", Gone("UNREGISTERED", ""))
    async with stage.working(provider, other):
        notification_id = await stage.accept("ada", type="plain", payload={})
        await stage.settled(notification_id, "sent", "gone")
        await stage.pool.execute("update devices set platform = 'web' where token = 'old phone'")
        await stage.device(token="new phone")
        await stage.device(token="watch", provider="apns", platform="ios")

        replay = await finished(stage, await start(stage, state="gone"))
        rows = await stage.settled(notification_id, "sent")

    assert (replay.replayed, replay.left_out) == (1, {})
    assert len(rows) == 3
    sent = [message.target for message in [*provider.arrived, *other.arrived]]
    assert sorted(sent) == ["new phone", "old phone", "tablet", "watch"]


async def test_two_gone_phones_share_the_devices_there_are(stage: Stage) -> None:
    gone = await stage.device(token="gone")
    await stage.pool.execute("update devices set retired_at = now(), retired_reason = 'UNREGISTERED'")
    await stage.device(token="new")
    first = await add_dead(stage, state="gone", device_id=gone)
    notification_id = await stage.pool.fetchval("select notification_id from deliveries where id = $1", first)
    await add_dead(stage, state="gone", device_id=gone, notification_id=notification_id)
    await add_dead(stage, "nobody", state="gone", device_id=gone)

    replay = await batch(stage, await start(stage))

    assert (replay.state, replay.replayed, replay.left_out) == ("finished", 1, {"no_device": 2})


async def test_what_was_for_a_device_without_consent_goes_to_no_other(stage: Stage) -> None:
    muted = await stage.device(token="phone", push_enabled=False)
    moved = await stage.device("bob", push_enabled=False)
    tablet = await stage.device(token="tablet")
    await add_dead(stage, device_id=muted)
    other = await add_dead(stage, device_id=moved)

    replay = await batch(stage, await start(stage))

    assert (replay.replayed, replay.left_out) == (1, {"withdrawn": 1})
    rows = await stage.pool.fetch("select id, device_id from deliveries where state = 'pending'")
    assert [tuple(row) for row in rows] == [(other, tablet)]


async def test_what_is_past_its_time_to_live_needs_force(stage: Stage) -> None:
    await stage.device()
    now = stage.clock()
    dead = await add_dead(stage, expires_at=now - timedelta(minutes=1))
    await stage.pool.execute("update notifications set accepted_at = $1", now - timedelta(minutes=61))
    provider = StubProvider()
    async with stage.working(provider):
        plain = await finished(stage, await start(stage))
        assert (plain.replayed, plain.left_out) == (0, {"expired": 1})

        forced = await finished(stage, await start(stage, force=True))
        assert (forced.replayed, forced.left_out) == (1, {})
        await found(lambda: stage.pool.fetchval("select true from deliveries where state = 'sent'"))

    assert provider.counts() == {dead: 1}
    lives = await stage.pool.fetchval("select expires_at - $1 from notifications", now)
    assert timedelta(minutes=59) < lives < timedelta(minutes=61)


async def test_what_was_cancelled_erased_or_reached_the_person_otherwise_is_left_out(stage: Stage) -> None:
    await add_dead(stage, cancelled_at=stage.clock())
    await add_dead(stage, "erased")
    await Eraser(stage.pool, stage.catalog, stage.clock).erase("erased", "ada")
    superseded = await add_dead(stage)
    notification_id = await stage.pool.fetchval(
        "select notification_id from deliveries where id = $1", superseded
    )
    fallback = {"channel": "email", "lane": "smtp", "state": "sent", "fallback_for": "push"}
    await add_delivery(stage.pool, notification_id=notification_id, **fallback)

    replay = await batch(stage, await start(stage, force=True))

    assert replay.left_out == {"cancelled": 1, "erased": 1, "superseded_by_failover": 1}
    assert (await stage.states())["dead"] == 3


async def test_what_a_newer_message_with_its_collapse_key_replaced_is_left_out(stage: Stage) -> None:
    mail = {"user_id": None, "address": "ada@example.org", "channel": "email", "lane": "smtp"}
    recipients: list[dict[str, Any]] = [{"user_id": "ada"}, mail]
    for recipient in recipients:
        for order, (state, key) in enumerate(
            [("dead", "score"), ("dead", "other"), ("sent", "score"), ("dead", "score")]
        ):
            await add_dead(stage, **recipient, state=state, collapse_key=key, accept_order=order)
    await add_dead(stage, "bob", collapse_key="score", accept_order=0)

    replay = await batch(stage, await start(stage))

    assert (replay.replayed, replay.left_out) == (5, {"collapsed": 2})
    rows = await stage.pool.fetch("select collapse_key, accept_order from deliveries where state = 'dead'")
    assert [tuple(row) for row in rows] == [("score", 0)] * 2


async def test_a_fallback_is_not_replayed_together_with_what_it_stands_in_for(stage: Stage) -> None:
    push, left_out = await add_dead_with_fallback(stage), {"first_channel_replayed": 1}

    together = await batch(stage, await start(stage))
    after = await batch(stage, await start(stage, channel="email"))
    await stage.pool.execute("update deliveries set state = 'dead' where id = $1", push)
    alone = await batch(stage, await start(stage, channel="email"))

    assert (together.replayed, together.left_out) == (1, left_out)
    assert (after.replayed, after.left_out) == (0, left_out)
    assert (alone.replayed, alone.left_out) == (1, {})


@pytest.mark.parametrize(("recovering", "replayed"), [(False, 0), (True, 1)])
async def test_a_fallback_is_replayed_beside_a_retried_channel_only_once_its_attempts_are_used_up(
    stage: Stage, *, recovering: bool, replayed: int
) -> None:
    push = await add_dead_with_fallback(stage)
    await batch(stage, await start(stage, channel="push"))
    await stage.pool.execute(
        "update deliveries set state = 'retrying', recovering = $2 where id = $1", push, recovering
    )

    assert (await batch(stage, await start(stage, channel="email"))).replayed == replayed


async def test_a_channel_is_not_replayed_together_with_its_fallback_of_an_earlier_batch(stage: Stage) -> None:
    await add_dead_with_fallback(stage)

    fallback = await batch(stage, await start(stage, channel="email"))
    push = await batch(stage, await start(stage, channel="push"))

    assert (fallback.replayed, fallback.left_out) == (1, {})
    assert (push.replayed, push.left_out) == (0, {"superseded_by_failover": 1})


async def test_a_fallback_is_replayed_if_what_it_stands_in_for_has_no_device(stage: Stage) -> None:
    retired = await stage.device(retired_at=stage.clock(), retired_reason="UNREGISTERED")
    await add_dead_with_fallback(stage, device_id=retired)

    replay = await batch(stage, await start(stage))

    assert (replay.replayed, replay.left_out) == (1, {"no_device": 1})


async def add_dead_with_fallback(stage: Stage, **changes: Any) -> UUID:
    """Add a push and the mail that is its fallback, both dead; return the push."""
    push = await add_dead(stage, type="must_know", **changes)
    notification_id = await stage.pool.fetchval("select notification_id from deliveries where id = $1", push)
    mail = {"channel": "email", "lane": "smtp", "fallback_for": "push"}
    await add_dead(stage, notification_id=notification_id, **mail)
    return push


async def test_a_replay_goes_on_where_a_killed_worker_left_it_and_replays_each_once(stage: Stage) -> None:
    dead = [await add_dead(stage, f"user{number}") for number in range(7)]
    other = await add_dead(stage, "other", last_error_code="INTERNAL")
    replay_id = await start(stage, rate=8, code="UNAVAILABLE")

    assert (await batch(stage, replay_id)).replayed == 2
    async with stage.worker_pool.acquire() as connection:
        killed = connection.transaction()
        await killed.start()
        row = await replays.take(connection)
        assert row is not None
        await run_batch(connection, row, stage.clock())
        # Nobody else does the same batch meanwhile.
        assert await replays.take(stage.pool) is None
        await killed.rollback()
    # What was replayed already and died again is not replayed again by the same replay.
    await stage.pool.execute("update deliveries set state = 'dead' where state = 'pending'")
    progress = [await batch(stage, replay_id) for _ in range(3)]

    assert [each.replayed for each in progress] == [4, 6, 7]
    assert progress[-1].state == "finished"
    rows = await stage.pool.fetch("select id, state, recovering, decisions from deliveries")
    assert {row["id"] for row in rows if row["decisions"]} == set(dead)
    assert {row["recovering"] for row in rows if row["id"] != other} == {False}
    assert {row["state"] for row in rows if row["id"] == other} == {"dead"}


async def test_the_rate_paces_the_batches(stage: Stage) -> None:
    for number in range(30):
        await add_dead(stage, f"user{number}")
    replay_id = await start(stage, rate=20)

    progress = [await batch(stage, replay_id) for _ in range(3)]

    assert [each.replayed for each in progress] == [5, 10, 15]
    waits = await stage.pool.fetchval("select next_at - created_at from replays")
    assert waits >= timedelta(seconds=15 / 20)


async def test_a_stopped_replay_replays_no_more(stage: Stage) -> None:
    for number in range(4):
        await add_dead(stage, f"user{number}")
    replay_id = await start(stage, rate=4)
    await batch(stage, replay_id)

    async with stage.pool.acquire() as connection:
        stopped = await stop_replay(connection, replay_id, "grace")
        again = await stop_replay(connection, replay_id, "grace")

    assert stopped is not None
    assert (stopped.state, stopped.replayed, stopped.stopped_by) == ("stopped", 1, "grace")
    assert again is None
    assert await replays.take(stage.pool) is None


async def test_a_digest_is_replayed_as_one_message(stage: Stage) -> None:
    await stage.device()
    provider = StubProvider()
    provider.script("ada", Rejected("INVALID_ARGUMENT", ""))
    async with stage.working(provider):
        accepted = [
            await stage.accept("ada", type="collected", payload={}, idempotency_key=key) for key in "abc"
        ]
        stage.clock.advance(timedelta(seconds=3))
        for notification_id in accepted:
            await stage.settled(notification_id, "rejected")

        replay = await finished(stage, await start(stage, rate=4))
        for notification_id in accepted:
            await stage.settled(notification_id, "sent")

    assert (replay.replayed, replay.left_out) == (3, {})
    assert len(provider.arrived) == 2


async def test_quiet_hours_hold_for_a_replay(stage: Stage) -> None:
    stage.quiet = QuietHoursSettings(enabled=True, default_timezone="UTC")
    stage.clock.move_to(stage.clock().replace(hour=23, minute=30) + timedelta(days=1))
    await stage.device()
    await add_dead(stage)
    provider = StubProvider()
    async with stage.working(provider):
        await finished(stage, await start(stage))
        held = await found(
            lambda: stage.pool.fetchrow(
                "select * from deliveries where state = 'scheduled' and lease is null"
            )
        )

    assert held["due_at"] > stage.clock() + timedelta(hours=5)
    assert provider.arrived == []


async def test_replayed_messages_of_a_group_arrive_in_the_order_of_their_acceptance(stage: Stage) -> None:
    await stage.device()
    provider = StubProvider(concurrency=5)
    provider.script("ada", *[Rejected("INVALID_ARGUMENT", "")] * 5)
    async with stage.working(provider):
        accepted = [
            await stage.accept("ada", type="step", payload={}, idempotency_key=key) for key in "abcde"
        ]
        for notification_id in accepted:
            await stage.settled(notification_id, "rejected")
        provider.arrived.clear()
        await finished(stage, await start(stage))
        for notification_id in accepted:
            await stage.settled(notification_id, "sent")

    assert [message.notification_id for message in provider.arrived] == accepted


async def test_two_workers_share_a_replay_without_repeating_a_delivery(stage: Stage) -> None:
    dead = [await add_dead(stage, f"user{number}") for number in range(60)]
    for number in range(60):
        await stage.device(f"user{number}")
    provider = StubProvider()
    async with stage.working(provider), stage.working(provider):
        replay = await finished(stage, await start(stage, rate=100))
        await until(lambda: len(provider.arrived) >= len(dead))

    assert replay.replayed == 60
    assert provider.counts() == dict.fromkeys(dead, 1)


async def test_a_replay_of_a_newer_version_stops_neither_the_worker_nor_other_replays(stage: Stage) -> None:
    await add_dead(stage)
    newer = await start(stage, state="dead")
    await stage.pool.execute("""update replays set filter = '{"moon_phase": "full"}'""")
    async with stage.working(StubProvider()):
        known = await finished(stage, await start(stage, state="dead"))

    assert (known.state, known.replayed) == ("finished", 1)
    assert await stage.pool.fetchval("select state from replays where id = $1", newer) == "running"
