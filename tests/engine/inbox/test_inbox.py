"""A delivery to an inbox is sent if and only if its item is there."""

from collections import Counter
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from tests import rows
from tests.engine.inbox.boxes import an_inbox, announce, items
from tests.engine.stage import Stage, a_provider
from tests.waiting import found
from tocsin.domain.delivery.outcome import InboxContent, Sent
from tocsin.domain.ids import DeliveryId, new_lease_id, uuid7
from tocsin.domain.limits import LimitsSettings
from tocsin.domain.timing.quiet_hours import QuietHoursSettings
from tocsin.engine.dispatch.attempt import LeasedDelivery
from tocsin.engine.retention.erase import Eraser
from tocsin.engine.retention.export import Exporter
from tocsin.engine.settle.settlements import settle_outcome
from tocsin.engine.settle.writer import SettlementWriter
from tocsin.store import toggles
from tocsin.store.people import preferences
from tocsin.store.retention.tables import RULES, prune_by_time

TOGGLE = "type:announcement:inbox"


def content(**changes: Any) -> InboxContent:
    return InboxContent(
        **{"title": "Hello", "body": "World", "link": None, "icon": None, "data": {}} | changes
    )


async def test_a_message_becomes_an_item_of_each_recipient(stage: Stage) -> None:
    async with stage.working(an_inbox()):
        payload = {"title": "A new report", "text": "It is there.", "link": "/reports/7"}
        notification_id = await announce(stage, "ada", "bob", payload=payload)
        sent = await stage.settled(notification_id, "sent")

    found_items = await items(stage)
    assert Counter(each["user_id"] for each in found_items) == {"ada": 1, "bob": 1}
    deliveries = {row["user_id"]: row for row in sent}
    for item in found_items:
        delivery = deliveries[item["user_id"]]
        assert item["delivery_id"] == delivery["id"]
        assert (item["type"], item["category"]) == ("announcement", "announcements")
        assert (item["title"], item["body"], item["link"]) == ("A new report", "It is there.", "/reports/7")
        assert msgspec.json.decode(item["data"]) == {
            "delivery_id": str(delivery["id"]),
            "notification_id": str(notification_id),
            "type": "announcement",
        }
        assert (item["seen_at"], item["read_at"], item["archived_at"]) == (None, None, None)
        assert (delivery["provider"], delivery["lane"], delivery["attempts"]) == ("inbox", "inbox", 1)


async def test_whoever_left_a_category_by_inbox_has_no_item_but_the_push(stage: Stage) -> None:
    await stage.device("ada")
    await preferences.change(stage.pool, "ada", {"alerts": {"inbox": False}}, stage.clock())
    async with stage.working(an_inbox(), a_provider("fcm")):
        settled = await stage.settled(
            await announce(stage, "ada", type="listed", payload={}), "sent", "skipped"
        )

    assert {row["channel"]: row["reason"] for row in settled} == {"push": None, "inbox": "opted_out"}
    assert await items(stage) == []


async def test_an_inbox_is_silent_so_quiet_hours_and_limits_hold_nothing(stage: Stage) -> None:
    stage.quiet = QuietHoursSettings(start="00:00", end="00:01", default_timezone="UTC")
    stage.clock.move_to(stage.clock().replace(hour=3) + timedelta(days=1))
    stage.limits = LimitsSettings(per_person_per_day=1)
    async with stage.working(an_inbox()):
        for number in range(3):
            made = await announce(stage, "ada", type="rarely_listed", payload={}, idempotency_key=str(number))
            await stage.settled(made, "sent")

    assert len(await items(stage)) == 3


async def test_a_toggle_holds_items_until_it_is_on(stage: Stage) -> None:
    async with stage.pool.acquire() as connection:
        await toggles.change(connection, TOGGLE, enabled=False, by="ops", reason=None, now=stage.clock())
    async with stage.working(an_inbox()):
        made = await announce(stage, "ada")

        async def is_held() -> bool:
            return all(row["held_by"] for row in await stage.deliveries(made))

        await found(is_held)
        assert await items(stage) == []
        async with stage.pool.acquire() as connection:
            await toggles.change(connection, TOGGLE, enabled=True, by="ops", reason=None, now=stage.clock())
        await stage.settled(made, "sent")

    assert len(await items(stage)) == 1


async def test_a_digest_is_one_item(stage: Stage) -> None:
    async with stage.working(an_inbox()):
        made = [
            await announce(
                stage,
                "ada",
                type="listed_together",
                payload={"text": str(number)},
                idempotency_key=str(number),
            )
            for number in range(3)
        ]
        stage.clock.advance(timedelta(seconds=2))
        for each in made:
            await stage.settled(each, "sent")

    (item,) = await items(stage)
    assert item["type"] == "listed_together"


async def test_what_is_too_large_is_rejected_and_nobody_else_is_affected(stage: Stage) -> None:
    async with stage.working(an_inbox()):
        large = await announce(
            stage, "ada", type="listed_together", payload={"text": "x" * 20_000}, idempotency_key="large"
        )
        small = await announce(stage, "bob")
        stage.clock.advance(timedelta(seconds=2))
        await stage.settled(large, "rejected")
        await stage.settled(small, "sent")

    assert [item["user_id"] for item in await items(stage)] == ["bob"]
    assert ("rejected", "payload_too_large") in await stage.attempts()


async def _settle(stage: Stage, *settlements: Any) -> None:
    writer = SettlementWriter(
        stage.worker_pool, stage.clock, on_release=lambda: None, raise_alarm=lambda _: None
    )
    for each in settlements:
        writer.put(each)
    writer.close()
    await writer.run()


async def _leased(stage: Stage, **changes: Any) -> LeasedDelivery:
    lease = new_lease_id()
    notification_id = await rows.add_notification(stage.pool, type="announcement", version=1)
    delivery_id = await rows.add_delivery(
        stage.pool,
        notification_id=notification_id,
        channel="inbox",
        lane="inbox",
        lease=lease,
        leased_until=stage.clock() + timedelta(minutes=1),
        **changes,
    )
    return LeasedDelivery(
        id=DeliveryId(delivery_id),
        lease=lease,
        channel="inbox",
        attempts=0,
        retrying=False,
        reserved=False,
        type=stage.catalog.find("announcement"),
        plain=True,
    )


def _sent(stage: Stage, attempt: LeasedDelivery, **changes: Any) -> Any:
    return settle_outcome(attempt, Sent(item=content(**changes)), now=stage.clock(), random=0.0)


async def test_a_repeated_attempt_makes_no_second_item(stage: Stage) -> None:
    attempt = await _leased(stage)

    await _settle(stage, _sent(stage, attempt))
    await _settle(stage, _sent(stage, attempt), _sent(stage, attempt))
    # As if the settlement were lost, and a worker tried again.
    await stage.pool.execute("update deliveries set state = 'retrying'")
    await _settle(stage, _sent(stage, attempt, title="Again"))

    assert [item["title"] for item in await items(stage)] == ["Hello"]
    assert (await rows.delivery(stage.pool, attempt.id))["state"] == "sent"


async def test_a_lost_lease_makes_no_item(stage: Stage) -> None:
    attempt = await _leased(stage)
    await stage.pool.execute("update deliveries set lease = $1", new_lease_id())

    await _settle(stage, _sent(stage, attempt))

    assert await items(stage) == []
    assert (await rows.delivery(stage.pool, attempt.id))["state"] == "pending"


@pytest.mark.parametrize("bad", [{"link": "/" + "x" * 3_000}, {"title": "a\x00b"}, {"title": "\ud800"}])
async def test_an_item_that_cannot_be_stored_is_not_called_sent(stage: Stage, bad: dict[str, Any]) -> None:
    good, attempt = await _leased(stage, user_id="bob"), await _leased(stage)

    await _settle(stage, _sent(stage, good), _sent(stage, attempt, **bad))

    assert [item["user_id"] for item in await items(stage)] == ["bob"]
    row = await rows.delivery(stage.pool, attempt.id)
    assert (row["state"], row["last_error_code"]) == ("rejected", "internal_error")


async def test_nothing_is_stored_for_somebody_who_was_erased_while_it_was_sent(stage: Stage) -> None:
    attempt = await _leased(stage)
    await _settle(stage, _sent(stage, await _leased(stage)))
    eraser = Eraser(stage.pool, stage.catalog, stage.clock)

    assert (await eraser.erase("ada", "ops")).state == "unfinished"
    assert await items(stage) == []
    await _settle(stage, _sent(stage, attempt))
    assert len(await items(stage)) == 1
    assert (await eraser.erase("ada", "ops")).state == "finished"

    assert await items(stage) == []


async def test_erasure_and_export_within_an_organisation_keep_to_its_items(stage: Stage) -> None:
    for org_id in ("acme", "other", None):
        attempt = await _leased(stage)
        await stage.pool.execute(
            "update notifications as n set org_id = $1 from deliveries as d where d.notification_id = n.id"
            " and d.id = $2",
            org_id,
            attempt.id,
        )
        await _settle(stage, _sent(stage, attempt, title=f"from {org_id}"))

    async def exported(org_id: str | None) -> list[str]:
        parts = [part async for part in Exporter(stage.pool, None, org_id).export("ada", stage.clock())]
        return [item["title"] for item in msgspec.json.decode(b"".join(parts))["inbox"]]

    assert await exported("acme") == ["from acme"]
    assert await exported(None) == ["from acme", "from other", "from None"]
    await Eraser(stage.pool, stage.catalog, stage.clock).erase("ada", "ops", "acme")
    assert await exported(None) == ["from other", "from None"]


async def test_items_are_pruned_by_their_age(stage: Stage) -> None:
    await _settle(stage, _sent(stage, await _leased(stage)))
    (rule,) = (rule for rule in RULES if rule.table == "inbox_items")
    (item,) = await items(stage)
    async with stage.pool.acquire() as connection:
        assert await prune_by_time(connection, rule, item["id"], 10) == 0
        assert await prune_by_time(connection, rule, uuid7(), 10) == 1
