"""One person on three providers: what happens to one of them does not happen to the others."""

from typing import Any

import pytest

from tests.acceptance.installation import Installation, Producer
from tests.waiting import found, until
from tocsin.sandbox import Outage

ADA = {
    "fcm": {"token": "ada-fcm", "platform": "android"},
    "apns": {"token": "ada0a0a5", "platform": "ios", "provider": "apns"},
    "expo": {"token": "ExponentPushToken[ada]", "platform": "android", "provider": "expo"},
}


@pytest.fixture
async def producer(installation: Installation, tmp_path: Any) -> Producer:
    """Give a producer of an installation in which Ada has a device on each of three providers."""
    sandbox = installation.sandbox
    apns = sandbox.apns
    installation.environment |= {
        "TOCSIN_APNS__KEY_FILE": str(apns.write_key(tmp_path / "key.p8")),
        "TOCSIN_APNS__KEY_ID": apns.key_id,
        "TOCSIN_APNS__TEAM_ID": apns.team_id,
        "TOCSIN_APNS__TOPIC": "com.example.app",
        "TOCSIN_APNS__BASE_URL": sandbox.https_url,
        "TOCSIN_APNS__CA_FILE": str(sandbox.ca_file),
        "TOCSIN_EXPO__ENABLED": "true",
        "TOCSIN_EXPO__BASE_URL": sandbox.https_url,
        "TOCSIN_EXPO__CA_FILE": str(sandbox.ca_file),
        "TOCSIN_HEALTH__REST_SECONDS": "1",
    }
    made = await installation.start_api()
    for fields in ADA.values():
        await made.register("ada", **fields)
    await installation.start_worker()
    return made


def arrived(installation: Installation) -> list[str]:
    return sorted(each.provider for each in installation.sandbox.phones.messages(after=0, limit=1_000))


async def test_two_get_it_at_once_and_the_third_after_recovery(
    installation: Installation, producer: Producer
) -> None:
    installation.sandbox.faults_of("apns").outage(Outage())

    notification_id = await producer.notify("ada")
    await until(lambda: arrived(installation) == ["expo", "fcm"])
    await producer.deliveries_in(notification_id, "sent", "retrying")
    assert arrived(installation) == ["expo", "fcm"]
    installation.sandbox.faults_of("apns").outage(None)

    await until(lambda: arrived(installation) == ["apns", "expo", "fcm"])
    deliveries = await producer.deliveries_in(notification_id, "sent")
    assert {each["provider"]: each["attempt_count"] > 1 for each in deliveries} == {
        "fcm": False,
        "apns": True,
        "expo": False,
    }


async def test_an_outage_that_lasts_costs_no_message(installation: Installation, producer: Producer) -> None:
    """More messages than attempts would survive: the circuit breaker opens, and the rest waits."""
    installation.sandbox.faults_of("apns").outage(Outage())
    await producer.notify_many(["ada"], 60)
    await until(lambda: arrived(installation).count("fcm") == 60)

    async def waiting() -> bool:
        return await installation.deliveries("lane = 'apns' and state = 'pending' and attempts = 0") > 30

    await found(waiting, within=30)
    installation.sandbox.faults_of("apns").outage(None)

    await installation.until_sent(180)
    stats = installation.sandbox.stats("apns")
    assert (stats.delivered, stats.duplicates) == (60, 0)
    assert await installation.deliveries("attempts > 3") == 0


async def test_what_is_gone_retires_only_itself(installation: Installation, producer: Producer) -> None:
    """The gone one travels in a batch with another person's, whose result is kept."""
    await producer.register("bob", "ExponentPushToken[bob]", platform="ios", provider="expo")
    installation.sandbox.phones.unregister("ExponentPushToken[ada]")

    notification_id = await producer.notify("ada", "bob")

    deliveries = await producer.deliveries_in(notification_id, "sent", "gone")
    states = sorted((each["recipient"], each["provider"], each["state"]) for each in deliveries)
    assert states == [
        ("user:ada", "apns", "sent"),
        ("user:ada", "expo", "gone"),
        ("user:ada", "fcm", "sent"),
        ("user:bob", "expo", "sent"),
    ]
    retired = {each["provider"]: each["retired_reason"] for each in await producer.devices("ada")}
    assert retired == {"fcm": None, "apns": None, "expo": "gone: DeviceNotRegistered"}
    assert [each["retired_reason"] for each in await producer.devices("bob")] == [None]
