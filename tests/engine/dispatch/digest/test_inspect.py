"""What is shown of the members of a digest: when it is due, what it waits for, and its message."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import msgspec
import pytest

from tests.engine.dispatch.digest.comments import (
    HOUR,
    MINUTE,
    NOON,
    WINDOW,
    carriers,
    comment,
    comments,
    every,
)
from tests.engine.stage import Stage, StubProvider
from tests.waiting import found
from tocsin.domain.digest import MOST_ITEMS
from tocsin.domain.timing.quiet_hours import QuietHoursSettings
from tocsin.engine.inspect import digests as inspected
from tocsin.engine.inspect.digests import ShownDigest, read_digests
from tocsin.engine.inspect.search import search
from tocsin.engine.inspect.show import show
from tocsin.store.deliveries.digests import Members
from tocsin.store.deliveries.holds import cancel
from tocsin.wire.filters import DeliveryFilter
from tocsin.wire.notifications import Delivery, Notification
from tocsin.wire.search import FoundDelivery


async def shown(stage: Stage, notification_id: UUID) -> Notification:
    read = await show(stage.pool, notification_id, stage.clock())
    assert read is not None
    return read


async def both(stage: Stage, notification_id: UUID) -> list[Delivery | FoundDelivery]:
    """Return the one delivery of a notification as it is shown and as it is found."""
    (delivery,) = (await shown(stage, notification_id)).deliveries
    page = await search(stage.pool, DeliveryFilter(user="ada"), stage.clock())
    (item,) = [each for each in page.items if each.notification_id == notification_id]
    return [delivery, *item.deliveries]


async def digest_of(stage: Stage, notification_id: UUID) -> ShownDigest | None:
    read = await shown(stage, notification_id)
    return (await read_digests(stage.pool, stage.catalog, read)).get("push")


def authors(digest: ShownDigest | None) -> list[Any]:
    assert digest is not None
    return [item["author"] for item in digest.payload["items"]]


async def test_a_member_shows_when_its_digest_is_due(stage: Stage) -> None:
    (made,) = await comments(stage, 1)
    (carrier,) = await carriers(stage)
    digest_id, due_at = carrier["digest_id"], carrier["due_at"]

    told = await both(stage, made)
    stage.clock.advance(2 * HOUR)
    late = await both(stage, made)

    waits = f"digest {digest_id}, until {due_at:%Y-%m-%d %H:%M:%S} UTC"
    assert [(each.digest_id, each.due_at, each.waiting_for) for each in told] == [
        (digest_id, due_at, waits)
    ] * 2
    assert [(each.due_at, each.waiting_for) for each in late] == [(due_at, f"digest {digest_id}")] * 2


async def test_a_member_shows_that_its_digest_waits_for_the_morning(
    stage: Stage, provider: StubProvider
) -> None:
    await stage.device("ada")
    stage.quiet = QuietHoursSettings(default_timezone="UTC")
    stage.clock.move_to(NOON + 9 * HOUR + 30 * MINUTE)
    made = await comment(stage, "early")
    async with stage.working(provider):
        stage.clock.advance(WINDOW)

        async def waits() -> bool:
            (carrier,) = await carriers(stage)
            return bool(carrier["due_at"] > stage.clock() + 9 * HOUR)

        await found(waits)
    (carrier,) = await carriers(stage)

    for each in await both(stage, made):
        assert (each.held_by, each.due_at, each.digest_id) == (
            "digest",
            carrier["due_at"],
            carrier["digest_id"],
        )
        assert each.waiting_for == (
            f"digest {carrier['digest_id']}, quiet hours 22:00-09:00 UTC (from the default),"
            f" of the deployment, until {carrier['due_at']:%Y-%m-%d %H:%M:%S} UTC"
        )


async def test_a_member_shows_what_holds_its_digest(stage: Stage) -> None:
    (made,) = await comments(stage, 1)
    (carrier,) = await carriers(stage)
    await stage.pool.execute(
        "update deliveries set due_at = 'infinity', held_by = 'type:comment' where id = $1", carrier["id"]
    )

    for each in await both(stage, made):
        assert (each.due_at, each.waiting_for) == (
            None,
            f"digest {carrier['digest_id']}, held by type:comment",
        )


async def test_a_digest_is_read_with_the_members_that_it_is_sent_with(
    stage: Stage, provider: StubProvider
) -> None:
    await stage.device("ada")
    made = await comments(stage, 4)
    own = await comment(stage, "own", send_at=stage.clock() + HOUR)
    await cancel(stage.pool, made[1], stage.clock())
    waiting = await digest_of(stage, made[0])
    async with stage.working(provider):
        stage.clock.advance(WINDOW)
        await every(stage, [made[0], *made[2:], own], "sent")
    sent = await digest_of(stage, made[3])

    assert authors(waiting) == authors(sent) == ["a0", "a2", "a3"]
    assert waiting is not None
    assert sent is not None
    assert (waiting.is_open, sent.is_open, sent.count, sent.recipient) == (True, False, 3, "user:ada")
    assert sent.payload["author"] == "a3"
    for alone in (made[1], own):
        assert await digest_of(stage, alone) is None


async def assign(stage: Stage, made: Sequence[UUID], org_id: str) -> None:
    await stage.pool.execute("update notifications set org_id = $2 where id = any($1::uuid[])", made, org_id)


async def test_only_members_of_the_readers_organisation_are_read_and_counted(stage: Stage) -> None:
    made = await comments(stage, 5)
    await assign(stage, made[:2], "acme")
    await assign(stage, made[2:4], "globex")
    read = await shown(stage, made[0])

    digests = {
        org_id: (await read_digests(stage.pool, stage.catalog, read, org_id))["push"]
        for org_id in ("acme", "globex", None)
    }

    assert {org_id: authors(digest) for org_id, digest in digests.items()} == {
        "acme": ["a0", "a1"],
        "globex": ["a2", "a3"],
        None: ["a0", "a1", "a2", "a3", "a4"],
    }
    assert [digest.count for digest in digests.values()] == [2, 2, 5]
    assert [digest.payload["count"] for digest in digests.values()] == [2, 2, 5]


async def test_members_before_the_newest_of_another_organisation_are_read(stage: Stage) -> None:
    made = await comments(stage, MOST_ITEMS + 3)
    await assign(stage, made[:2], "acme")
    await assign(stage, made[2:], "globex")
    read = await shown(stage, made[0])

    digest = (await read_digests(stage.pool, stage.catalog, read, "acme"))["push"]

    assert (authors(digest), digest.count) == (["a0", "a1"], 2)


async def test_a_channel_without_a_digest_to_show_is_looked_up_once(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    (made,) = await comments(stage, 1)
    read = await shown(stage, made)
    (delivery,) = read.deliveries
    several = msgspec.structs.replace(read, deliveries=[delivery] * 3)
    looked_up = []

    async def none_found(_: object, digest_id: UUID, *__: object, **___: object) -> Members:
        looked_up.append(digest_id)
        return Members([], 0)

    monkeypatch.setattr(inspected, "newest_members", none_found)

    assert await read_digests(stage.pool, stage.catalog, several, "acme") == {}
    assert looked_up == [delivery.digest_id]
