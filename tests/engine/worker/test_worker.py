import time
from collections import Counter
from contextlib import AsyncExitStack
from uuid import UUID

import asyncpg
import structlog
from msgspec.structs import replace

from tests.engine.stage import QUICK, Stage, StubProvider
from tests.engine.worker.alerts import (
    MINUTE,
    SECOND,
    accept_many,
    alert,
    all_in,
    cut_connections,
    listeners,
    push_in,
)
from tests.rows import got
from tests.waiting import found, until
from tocsin.catalog.catalog import Catalog
from tocsin.domain.ids import new_lease_id


async def test_an_accepted_notification_is_sent(stage: Stage, provider: StubProvider) -> None:
    device_id = await stage.device("ada", locale="tr-TR")
    async with stage.working(provider):
        notification_id = await stage.accept("ada", collapse_key="c")
        (row,) = await stage.settled(notification_id, "sent")

    (message,) = provider.arrived
    assert (message.target, message.platform, message.collapse_key) == ("ada", "android", "c")
    assert "Ali Veli" in message.title + message.body
    assert message.data["delivery_id"] == str(row["id"])
    assert message.data["notification_id"] == str(notification_id)
    assert (row["attempts"], row["lease"], row["device_id"]) == (1, None, device_id)
    assert row["provider_message_id"] == f"message-{row['id']}"
    assert await got(stage.pool, device_id) == (1, row["settled_at"])
    assert await stage.attempts() == []


async def test_an_old_version_goes_out_in_the_words_of_the_new(stage: Stage, provider: StubProvider) -> None:
    await stage.device("ada")
    notification_id = await stage.accept(version=1, payload={"customerName": "Ayşe"})
    async with stage.working(provider):
        await stage.settled(notification_id, "sent")

    assert "Ayşe" in provider.arrived[0].title + provider.arrived[0].body


async def test_each_device_of_a_person_gets_it_once(stage: Stage, provider: StubProvider) -> None:
    for token in ("phone", "tablet", "watch"):
        await stage.device("ada", token=token)
    async with stage.working(provider):
        notification_id = await stage.accept("ada")
        await until(lambda: len(provider.arrived) == 3)
        rows = await stage.settled(notification_id, "sent")

    assert sorted(message.target for message in provider.arrived) == ["phone", "tablet", "watch"]
    assert len(rows) == 3


async def test_what_is_past_its_time_is_not_sent(stage: Stage, provider: StubProvider) -> None:
    await stage.device("ada")
    notification_id = await stage.accept("ada", ttl_seconds=60)
    stage.clock.advance(61 * SECOND)
    async with stage.working(provider):
        (row,) = await stage.settled(notification_id, "expired")

    assert (row["attempts"], provider.arrived) == (0, [])


async def test_what_is_scheduled_leaves_when_its_time_has_come(stage: Stage, provider: StubProvider) -> None:
    await stage.device("ada")
    async with stage.working(provider):
        later = await stage.accept("ada", send_at=stage.clock() + 10 * MINUTE, idempotency_key="later")
        await stage.settled(await stage.accept("ada", idempotency_key="now"), "sent")
        assert [row["state"] for row in await stage.deliveries(later)] == ["scheduled"]
        stage.clock.advance(11 * MINUTE)
        await stage.settled(later, "sent")


async def test_a_person_without_a_device_is_told_of(stage: Stage, provider: StubProvider) -> None:
    async with stage.working(provider):
        (row,) = await stage.settled(await stage.accept("nobody"), "skipped")

    assert (row["reason"], row["attempts"], row["device_id"]) == ("no_device", 0, None)
    assert provider.arrived == []


async def test_a_device_of_a_provider_that_is_not_set_up_is_told_of(
    stage: Stage, provider: StubProvider
) -> None:
    await stage.device("ada", provider="apns")
    async with stage.working(provider):
        (row,) = await stage.settled(await stage.accept("ada"), "skipped")

    assert row["reason"] == "provider_unavailable"


async def test_an_idle_worker_is_woken_at_once(stage: Stage, provider: StubProvider) -> None:
    await stage.device("ada")
    async with stage.working(provider, settings=replace(QUICK, poll_seconds=60.0)):
        await stage.settled(await stage.accept("ada", idempotency_key="warm"), "sent")
        began = time.monotonic()
        notification_id = await stage.accept("ada")
        await until(lambda: len(provider.arrived) == 2, within=5)
        took = time.monotonic() - began
        await stage.settled(notification_id, "sent")

    assert took < 2


async def test_a_stopping_worker_finishes_what_is_under_way_and_takes_no_more(stage: Stage) -> None:
    provider = StubProvider(concurrency=4)
    await accept_many(stage, 10)
    provider.hold()
    async with stage.working(provider) as stop:
        await until(lambda: len(provider.arrived) == 4)
        stop.set()
        provider.let_go.set()

    assert await stage.states() == Counter(sent=4, pending=6)
    assert await stage.pool.fetchval("select count(*) from deliveries where lease is not null") == 0


async def test_a_worker_that_cannot_finish_in_time_leaves_its_leases_behind(stage: Stage) -> None:
    provider = StubProvider(concurrency=4)
    await accept_many(stage, 4)
    provider.hold()
    async with stage.working(provider, settings=replace(QUICK, stop_seconds=0.2)) as stop:
        await until(lambda: len(provider.arrived) == 4)
        stop.set()

    assert await stage.states() == Counter(pending=4)
    stage.clock.advance(31 * SECOND)
    second = StubProvider()
    async with stage.working(second):
        await all_in(stage, sent=4)
    assert len(second.arrived) == 4


async def test_no_more_is_under_way_than_the_provider_takes(stage: Stage) -> None:
    provider = StubProvider(concurrency=6)
    await accept_many(stage, 20)
    async with stage.working(provider):
        await all_in(stage, sent=20)

    assert provider.most_at_once <= 6
    assert set(provider.counts().values()) == {1}


async def test_workers_share_the_work_and_send_nothing_twice(stage: Stage) -> None:
    providers = [StubProvider(concurrency=5) for _ in range(4)]
    await accept_many(stage, 120)
    for provider in providers:
        provider.hold()
    async with AsyncExitStack() as workers:
        for provider in providers:
            await workers.enter_async_context(stage.working(provider))
        await until(lambda: all(len(provider.arrived) == 5 for provider in providers))
        for provider in providers:
            provider.let_go.set()
        await all_in(stage, sent=120)

    counts = sum((provider.counts() for provider in providers), Counter[UUID]())
    assert set(counts.values()) == {1}
    assert len(counts) == 120


async def test_a_delivery_of_a_dead_worker_is_taken_over(stage: Stage, provider: StubProvider) -> None:
    await stage.device("ada")
    notification_id = await stage.accept("ada")
    await stage.pool.execute(
        "update deliveries set lease = $1, leased_until = $2", new_lease_id(), stage.clock() + 30 * SECOND
    )
    async with stage.working(provider):
        await stage.settled(await stage.accept("ada", idempotency_key="other"), "sent")
        assert len(provider.arrived) == 1
        stage.clock.advance(31 * SECOND)
        (row,) = await stage.settled(notification_id, "sent")

    assert row["attempts"] == 1


async def test_a_delivery_that_kills_its_workers_is_given_up(stage: Stage, provider: StubProvider) -> None:
    await stage.device("ada")
    notification_id = await alert(stage)
    await stage.pool.execute(
        "update deliveries set lease = $1, leased_until = $2, alone = true, attempts = 2"
        " where channel = 'push'",
        new_lease_id(),
        stage.clock(),
    )
    async with stage.working(provider):
        row = await push_in(stage, notification_id, "dead")

    assert (row["attempts"], row["last_error_code"]) == (3, "lease_expired")
    assert provider.arrived == []


async def test_a_type_that_a_worker_does_not_know_is_held_until_one_knows_it(
    stage: Stage, provider: StubProvider
) -> None:
    await stage.device("ada")
    notification_id = await stage.accept("ada", type="plain", payload={})
    known = stage.catalog
    stage.catalog = Catalog(each for each in known.compiled.values() if each.type.name != "plain")

    async def held() -> bool:
        (row,) = await stage.deliveries(notification_id)
        return row["unknown_type"] == "plain@1" and bool(await alarms(stage))

    with structlog.testing.capture_logs() as lines:
        async with stage.working(provider):
            other = await stage.accept("ada", type="urgent", payload={}, idempotency_key="other")
            await stage.settled(other, "sent")
            await found(held)
            assert len(provider.arrived) == 1
            # The worker loads a catalog that has the type.
            stage.catalog.replace(known)
            (row,) = await stage.settled(notification_id, "sent")

            async def cleared() -> bool:
                return not await alarms(stage)

            await found(cleared)

    assert (row["attempts"], row["unknown_type"]) == (1, None)
    assert [(line["log_level"], line["types"]) for line in lines if line["event"] == "type unknown"] == [
        ("error", ["plain v1"])
    ]


async def test_another_worker_that_knows_the_type_releases_what_one_without_it_held(
    stage: Stage, provider: StubProvider
) -> None:
    await stage.device("ada")
    notification_id = await stage.accept("ada", type="plain", payload={})
    await stage.pool.execute(
        "update deliveries set state = 'scheduled', due_at = 'infinity', unknown_type = 'plain@1'"
    )
    async with stage.working(provider):
        await stage.settled(notification_id, "sent")


async def alarms(stage: Stage) -> list[str]:
    rows = await stage.pool.fetch("select code from alarms where cleared_at is null")
    return [row["code"] for row in rows]


async def test_a_worker_survives_the_loss_of_its_connections(stage: Stage, provider: StubProvider) -> None:
    await stage.device("ada")
    async with stage.working(provider):
        await stage.settled(await stage.accept("ada", idempotency_key="before"), "sent")
        await cut_connections(stage)

        async def accepted() -> UUID | None:
            try:
                return await stage.accept("ada", idempotency_key="after")
            except (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError):
                return None

        await stage.settled(await found(accepted), "sent")

    assert set(provider.counts().values()) == {1}


async def test_a_worker_listens_again_after_the_loss_of_its_connections(
    stage: Stage, provider: StubProvider
) -> None:
    await stage.device("ada")
    async with stage.working(provider, settings=replace(QUICK, poll_seconds=60.0)):
        await stage.settled(await stage.accept("ada", idempotency_key="before"), "sent")
        await cut_connections(stage)
        await found(lambda: listeners(stage))
        await stage.settled(await stage.accept("ada", idempotency_key="after"), "sent")


FULL_DISK = """
create function full_disk() returns trigger language plpgsql
as $$ begin raise exception 'no space left' using errcode = 'disk_full'; end $$;
create trigger full_disk before update on deliveries
    for each row when (new.state = 'sent') execute function full_disk();
"""


async def test_what_cannot_be_settled_now_is_settled_once_it_can(
    stage: Stage, provider: StubProvider
) -> None:
    await accept_many(stage, 5)
    provider.hold()
    async with stage.working(provider):
        await until(lambda: len(provider.arrived) == 5)
        await stage.pool.execute(FULL_DISK)
        provider.let_go.set()
        with structlog.testing.capture_logs() as lines:
            await until(lambda: any(line["event"] == "settling failed" for line in lines))
        assert await stage.states() == Counter(pending=5)
        await stage.pool.execute("drop trigger full_disk on deliveries")
        await all_in(stage, sent=5)

    assert set(provider.counts().values()) == {1}
