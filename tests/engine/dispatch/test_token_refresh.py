"""A token that changes while a message waits: the message goes to the device that followed."""

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from tests.engine.stage import Stage, StubProvider, a_provider
from tests.rows import device
from tests.waiting import found, until
from tocsin.domain.delivery.outcome import Gone, Retry
from tocsin.domain.people.devices import DeviceSettings
from tocsin.store.people import devices
from tocsin.store.people.devices import DeviceRegistration, Registered

WAIT = timedelta(seconds=11)


async def register(stage: Stage, token: str, *, replaces: str | None = None, **changes: Any) -> UUID:
    fields: dict[str, Any] = {"user_id": "ada", "platform": "android", "provider": "fcm"}
    wanted = DeviceRegistration(token=token, replaces_token=replaces, **fields | changes)
    registered = await devices.register(stage.pool, wanted, DeviceSettings(), stage.clock())
    assert isinstance(registered, Registered)
    return registered.device.id


async def retrying(stage: Stage, count: int = 1) -> None:
    async def look() -> bool:
        return (await stage.states())["retrying"] == count

    await found(look)


def targets(provider: StubProvider) -> list[str]:
    return [message.target for message in provider.arrived]


async def plain(stage: Stage) -> UUID:
    return await stage.accept("ada", type="plain", payload={})


async def test_a_retry_goes_to_the_refreshed_token(stage: Stage) -> None:
    provider = StubProvider()
    await register(stage, "old")
    provider.script("old", Retry("UNAVAILABLE"))
    async with stage.working(provider):
        notification_id = await plain(stage)
        await retrying(stage)
        await register(stage, "new", replaces="old")
        stage.clock.advance(WAIT)
        await stage.settled(notification_id, "sent")

    assert targets(provider) == ["old", "new"]


@pytest.mark.parametrize("retire", ["unregister", "move"])
async def test_a_retry_goes_to_the_device_that_the_person_registered_instead(
    stage: Stage, retire: str
) -> None:
    provider, other = StubProvider(), a_provider("apns")
    await register(stage, "old")
    provider.script("old", Retry("UNAVAILABLE"))
    async with stage.working(provider, other):
        notification_id = await plain(stage)
        await retrying(stage)
        if retire == "move":
            await register(stage, "old", user_id="bob")
        else:
            await devices.unregister(stage.pool, "ada", token="old", now=stage.clock())
        successor = await register(stage, "new", provider="apns")
        stage.clock.advance(WAIT)
        (row,) = await stage.settled(notification_id, "sent")

    assert (targets(provider), targets(other)) == (["old"], ["new"])
    assert (row["device_id"], row["lane"]) == (successor, "apns")


async def test_a_device_gone_after_its_successor_registered_loses_nothing(stage: Stage) -> None:
    provider = StubProvider()
    gone = await register(stage, "old")
    provider.script("old", Gone("UNREGISTERED"))
    provider.hold()
    async with stage.working(provider):
        notification_id = await plain(stage)
        await until(lambda: len(provider.arrived) == 1)
        stage.clock.advance(WAIT)
        successor = await register(stage, "new")
        provider.let_go.set()
        (row,) = await stage.settled(notification_id, "sent")

    assert (row["device_id"], row["attempts"]) == (successor, 2)
    assert targets(provider) == ["old", "new"]
    assert (await device(stage.pool, gone))["retired_reason"] == "gone: UNREGISTERED"
    assert await stage.attempts() == [("gone", "UNREGISTERED")]


async def test_an_answer_about_the_old_token_does_not_retire_the_refreshed_device(stage: Stage) -> None:
    provider = StubProvider()
    device_id = await register(stage, "old")
    provider.script("old", Gone("UNREGISTERED"))
    provider.hold()
    async with stage.working(provider):
        notification_id = await plain(stage)
        await until(lambda: len(provider.arrived) == 1)
        stage.clock.advance(timedelta(seconds=1))
        await register(stage, "new", replaces="old")
        provider.let_go.set()
        await stage.settled(notification_id, "sent")

    assert targets(provider) == ["old", "new"]
    assert (await device(stage.pool, device_id))["retired_at"] is None


async def test_a_message_for_two_devices_that_became_one_arrives_once_there(stage: Stage) -> None:
    provider = StubProvider()
    await register(stage, "old")
    await register(stage, "new")
    provider.script("old", Retry("UNAVAILABLE"))
    provider.script("new", Retry("UNAVAILABLE"))
    async with stage.working(provider):
        notification_id = await plain(stage)
        await retrying(stage, 2)
        await register(stage, "new", replaces="old")
        stage.clock.advance(WAIT)
        rows = await stage.settled(notification_id, "sent", "skipped")

    assert sorted(row["state"] for row in rows) == ["sent", "skipped"]
    assert sorted(targets(provider)) == ["new", "new", "old"]


async def test_two_lost_devices_with_one_successor_bring_it_the_message_once(stage: Stage) -> None:
    provider = StubProvider()
    for token in ("phone", "tablet"):
        await register(stage, token)
        provider.script(token, Retry("UNAVAILABLE"))
    async with stage.working(provider):
        notification_id = await plain(stage)
        await retrying(stage, 2)
        for token in ("phone", "tablet"):
            await devices.unregister(stage.pool, "ada", token=token, now=stage.clock())
        await register(stage, "new")
        stage.clock.advance(WAIT)
        rows = await stage.settled(notification_id, "sent", "skipped")

    assert sorted((row["state"], row["reason"]) for row in rows) == [
        ("sent", None),
        ("skipped", "device_lost"),
    ]
    assert targets(provider).count("new") == 1


async def test_consent_withdrawn_for_a_device_is_not_undone_by_another(stage: Stage) -> None:
    provider = StubProvider()
    phone = await register(stage, "old")
    provider.script("old", Retry("UNAVAILABLE"))
    async with stage.working(provider):
        notification_id = await plain(stage)
        await retrying(stage)
        await devices.set_consent(stage.pool, "ada", phone, push_enabled=False)
        await register(stage, "new")
        stage.clock.advance(WAIT)
        (row,) = await stage.settled(notification_id, "skipped")

    assert row["reason"] == "device_lost"
    assert targets(provider) == ["old"]


async def test_a_device_of_another_platform_or_from_before_is_no_successor(stage: Stage) -> None:
    provider = StubProvider()
    phone = await register(stage, "old")
    await register(stage, "muted")
    await stage.pool.execute("update devices set push_enabled = false where token = 'muted'")
    provider.script("old", Retry("UNAVAILABLE"))
    async with stage.working(provider):
        stage.clock.advance(WAIT)
        notification_id = await plain(stage)
        await retrying(stage)
        await stage.pool.execute("update devices set push_enabled = true where token = 'muted'")
        await devices.unregister(stage.pool, "ada", device_id=phone, now=stage.clock())
        await register(stage, "page", platform="web")
        stage.clock.advance(WAIT)
        (row,) = await stage.settled(notification_id, "skipped")

    assert row["reason"] == "device_lost"
    assert targets(provider) == ["old"]
