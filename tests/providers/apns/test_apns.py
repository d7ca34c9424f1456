from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.providers.apns.rig import TOPIC, ApnsRig, rigged
from tests.providers.conformance import NOW, OneOriginConformance, ProviderConformance, a_message, send_to
from tocsin.domain.delivery.message import PushAppearance
from tocsin.domain.delivery.outcome import Defer, Gone, Outcome, Rejected, Retry, Sent
from tocsin.providers.answers import ALARM_REST
from tocsin.providers.apns.answers import RULES, UNPROVEN, UPDATES_REST
from tocsin.providers.apns.render import VOIP_BYTES, render
from tocsin.providers.rendering import collapse_id
from tocsin.sandbox import Outage, Quota, Refuse, Sandbox, SandboxSettings


@pytest.fixture(scope="module")
async def running(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Sandbox]:
    async with Sandbox(SandboxSettings(folder=tmp_path_factory.mktemp("sandbox"))) as sandbox:
        yield sandbox


@pytest.fixture
async def rig(running: Sandbox, tmp_path: Path) -> AsyncIterator[ApnsRig]:
    async with rigged(running, tmp_path) as made:
        yield made


class TestConformance(ProviderConformance, OneOriginConformance):
    pass


def expected_of(code: str) -> Outcome:
    """Give the outcome that the table of answers, as it was agreed on, has for a reason."""
    match code:
        case "BadDeviceToken" | "DeviceTokenNotForTopic":
            return Gone(code)
        case "Unregistered" | "ExpiredToken":
            return Gone(code, since=datetime(2026, 2, 1, 8, 30, 15, 250_000, tzinfo=UTC))
        case "InternalServerError" | "ServiceUnavailable" | "Shutdown" | "IdleTimeout":
            return Retry(code)
        case "TooManyRequests":
            return Retry(code, speaks_against="target")
        case "TooManyProviderTokenUpdates":
            return Defer(code, UPDATES_REST)
        case (
            "BadCertificate"
            | "BadCertificateEnvironment"
            | "BadEnvironmentKeyIdInToken"
            | "ExpiredProviderToken"
            | "Forbidden"
            | "InvalidProviderToken"
            | "MissingProviderToken"
            | "UnrelatedKeyIdInToken"
        ):
            return Defer(code, ALARM_REST, alarm=True)
        case _:
            return Rejected(code)


@pytest.mark.parametrize("code", sorted({rule.code for rule in RULES}))
async def test_each_reason_of_apple_is_understood(rig: ApnsRig, code: str) -> None:
    provider = await rig.proven_provider()
    rig.stand_in.gone_since = datetime(2026, 2, 1, 8, 30, 15, 250_000, tzinfo=UTC).timestamp()
    rig.script("phone", Refuse(code), repeat=True)

    assert await send_to(rig, provider, "phone") == expected_of(code)


def test_the_table_and_the_stand_in_know_the_same_reasons(rig: ApnsRig) -> None:
    assert {rule.code for rule in RULES} == rig.faults.codes


@pytest.mark.parametrize("code", ["BadDeviceToken", "DeviceTokenNotForTopic", "TopicDisallowed", "BadTopic"])
async def test_nothing_is_lost_to_a_wrong_environment_or_topic(rig: ApnsRig, code: str) -> None:
    provider = rig.provider()
    rig.script("phone", Refuse(code), repeat=True)

    before = await send_to(rig, provider, "phone")
    await send_to(rig, provider, "other")
    after = await send_to(rig, provider, "phone")

    assert before == Defer(code, ALARM_REST, UNPROVEN, pauses=False, alarm=True)
    assert isinstance(after, Gone | Rejected)


async def test_a_device_that_was_known_once_proves_environment_and_topic(rig: ApnsRig) -> None:
    provider = rig.provider()
    rig.script("left", Refuse("Unregistered"))
    rig.script("phone", Refuse("BadDeviceToken"))

    assert isinstance(await send_to(rig, provider, "left"), Gone)
    assert await send_to(rig, provider, "phone") == Gone("BadDeviceToken")


async def test_a_call_to_a_token_for_alerts_does_not_retire_it(rig: ApnsRig) -> None:
    provider = await rig.proven_provider()
    rig.script("phone", Refuse("DeviceTokenNotForTopic"))

    outcome = await send_to(rig, provider, "phone", appearance=PushAppearance(push_type="voip"))

    assert outcome == Rejected("DeviceTokenNotForTopic")


async def test_an_unregistered_phone_is_gone_since_it_was_lost(rig: ApnsRig) -> None:
    rig.sandbox.phones.unregister(rig.key("phone"))
    began = datetime.now(UTC)

    outcome = await send_to(rig, rig.provider(), "phone")

    assert isinstance(outcome, Gone)
    assert outcome.since is not None
    assert timedelta() <= outcome.since - began.replace(microsecond=0) < timedelta(minutes=1)


async def test_a_busy_device_slows_that_device_alone(rig: ApnsRig) -> None:
    rig.faults.device_quota(Quota(1, retry_after=30))
    provider = rig.provider()

    outcomes = [await send_to(rig, provider, name) for name in ("a", "a", "b")]

    assert [type(outcome) for outcome in outcomes] == [Sent, Retry, Sent]
    assert outcomes[1] == Retry("TooManyRequests", after=timedelta(seconds=30), speaks_against="target")


async def test_an_outage_is_a_retry(rig: ApnsRig) -> None:
    rig.faults.outage(Outage(retry_after=11))

    outcome = await send_to(rig, rig.provider(), "phone")

    assert outcome == Retry("ServiceUnavailable", after=timedelta(seconds=11))


async def test_a_wrong_address_costs_no_delivery(rig: ApnsRig) -> None:
    provider = rig.provider(base_url=f"{rig.sandbox.https_url}/nowhere")

    outcome = await send_to(rig, provider, "phone")

    assert isinstance(outcome, Defer)
    assert (outcome.code, outcome.alarm) == ("HTTP_404", True)


async def test_messages_go_over_http_2(rig: ApnsRig) -> None:
    provider = rig.provider()
    for number in range(3):
        await send_to(rig, provider, f"phone{number}")

    assert rig.stats.protocols == {"2": 3}


@pytest.mark.parametrize("target", ["", "a/b", "..", "a?b=c", "a#b", "a%2e", "a b", "a\nb", "ü", "a.b"])
async def test_a_token_that_would_change_the_address_is_gone_and_never_sent(
    rig: ApnsRig, target: str
) -> None:
    (outcome,) = await rig.provider().send([a_message(target)], now=NOW)

    assert isinstance(outcome, Gone)
    assert outcome.code == "BadDeviceToken"
    assert rig.stats.requests == 0


async def test_topics_of_other_providers_are_refused(rig: ApnsRig) -> None:
    outcome = await send_to(rig, rig.provider(), "news", target_kind="topic")

    assert isinstance(outcome, Rejected)
    assert rig.stats.requests == 0


def test_an_alert_is_written_as_apple_wants_it() -> None:
    appearance = PushAppearance(
        severity="critical",
        image="https://example.com/a.png",
        icon="bell",
        sound="chime.caf",
        badge=0,
        deep_link="shop://orders/7",
        route="/orders/7",
        click_action="ORDER",
        channel="orders",
        analytics_label="spring",
    )
    message = a_message("phone", appearance=appearance, data={"type": "new_customer", "aps": "mine"})

    assert decoded(render(message)) == {
        "aps": {
            "alert": {"title": "New customer", "body": "Ali Veli"},
            "mutable-content": 1,
            "sound": "chime.caf",
            "badge": 0,
            "category": "ORDER",
            "interruption-level": "time-sensitive",
        },
        "type": "new_customer",
        "delivery_id": str(message.delivery_id),
        "deep_link": "shop://orders/7",
        "route": "/orders/7",
        "image": "https://example.com/a.png",
    }


def test_a_background_push_shows_and_sounds_nothing() -> None:
    appearance = PushAppearance(
        push_type="background",
        severity="critical",
        image="https://example.com/a.png",
        sound="chime.caf",
        badge=3,
        click_action="ORDER",
        deep_link="shop://orders/7",
    )
    message = a_message("phone", appearance=appearance)

    assert decoded(render(message)) == {
        "aps": {"content-available": 1},
        "type": "new_customer",
        "delivery_id": str(message.delivery_id),
        "deep_link": "shop://orders/7",
    }


def decoded(body: bytes | Rejected) -> Any:
    assert isinstance(body, bytes)
    return msgspec.json.decode(body)


@pytest.mark.parametrize(
    ("appearance", "topic", "push_type", "priority"),
    [
        (PushAppearance(), TOPIC, "alert", "10"),
        (PushAppearance(severity="critical"), TOPIC, "alert", "10"),
        (PushAppearance(push_type="background"), TOPIC, "background", "5"),
        (PushAppearance(push_type="voip"), f"{TOPIC}.voip", "voip", "10"),
    ],
)
async def test_the_headers_follow_the_push_type(
    rig: ApnsRig, appearance: PushAppearance, topic: str, push_type: str, priority: str
) -> None:
    message = rig.message("phone", appearance=appearance, collapse_key="order-7")

    (outcome,) = await rig.provider().send([message], now=NOW)

    assert outcome == Sent(str(message.delivery_id))
    (arrived,) = rig.arrivals
    assert arrived.message["headers"] == {
        "apns-topic": topic,
        "apns-push-type": push_type,
        "apns-priority": priority,
        "apns-expiration": "1772370000",
        "apns-id": str(message.delivery_id),
        "apns-collapse-id": "order-7",
    }


async def test_without_an_end_or_a_collapse_key_the_delivery_stands_for_itself(rig: ApnsRig) -> None:
    message = rig.message("phone", expires_at=None)

    await rig.provider().send([message], now=NOW)

    headers = rig.arrivals[0].message["headers"]
    assert "apns-expiration" not in headers
    assert headers["apns-collapse-id"] == str(message.delivery_id)


@pytest.mark.parametrize("key", ["k" * 65, "ü", "a\r\nb: c", "\x00"])
async def test_a_collapse_key_of_any_kind_fits_its_header(rig: ApnsRig, key: str) -> None:
    assert isinstance(await send_to(rig, rig.provider(), "phone", collapse_key=key), Sent)

    assert rig.arrivals[0].message["headers"]["apns-collapse-id"] == collapse_id(key)
    assert len(collapse_id(key)) <= 64
    assert collapse_id(key) != collapse_id(key + "x")


@pytest.mark.parametrize(
    ("push_type", "most"), [("alert", 4_096), ("background", 4_096), ("voip", VOIP_BYTES)]
)
async def test_the_largest_payload_is_taken_and_one_byte_more_is_not(
    rig: ApnsRig, push_type: Any, most: int
) -> None:
    def message(size: int) -> Any:
        return rig.message("phone", appearance=PushAppearance(push_type=push_type), data={"fill": "x" * size})

    empty = render(message(0))
    assert isinstance(empty, bytes)
    room = most - len(empty)
    outcomes = [(await rig.provider().send([message(size)], now=NOW))[0] for size in (room, room + 1)]

    assert isinstance(outcomes[0], Sent)
    assert outcomes[1] == Rejected("payload_too_large", f"{most + 1} bytes; APNs takes {most}")


async def test_an_untrusted_certificate_is_a_retry(rig: ApnsRig) -> None:
    outcome = await send_to(rig, rig.provider(ca_file=None), "phone")

    assert isinstance(outcome, Retry)
    assert outcome.code == "network_error"
