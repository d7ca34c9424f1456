import asyncio
import base64
import logging
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from providers.conformance import (
    NOW,
    CannedAnswer,
    Http2Conformance,
    ProviderConformance,
    Rig,
    a_message,
    send_to,
)
from tocsin.domain.errors import ProviderSetupError
from tocsin.domain.message import Look
from tocsin.domain.outcome import Defer, Gone, Outcome, Rejected, Retry, Sent
from tocsin.providers.apns import (
    HOSTS,
    VOIP_BYTES,
    ApnsProvider,
    ApnsSettings,
    apns_settings_faults,
    collapse_id,
    render,
)
from tocsin.providers.apns_answers import ALARM_REST, RULES, UNPROVEN, UPDATES_REST
from tocsin.sandbox import Hang, Outage, Quota, Refuse, Sandbox, SandboxSettings
from tocsin.sandbox.apns import Apns

TOPIC = "com.example.shop"
MINUTE = 60.0
HOUR = 3_600.0


class MovableClock:
    def __init__(self) -> None:
        self.ahead = 0.0

    def __call__(self) -> float:
        return time.time() + self.ahead


class ApnsRig(Rig):
    service = "apns"
    busy = Refuse("ServiceUnavailable", retry_after=7)
    # Apple has no quota of a sender; this is the one answer that tells the whole provider to wait.
    quota = Refuse("TooManyProviderTokenUpdates", retry_after=90)
    gone = Refuse("Unregistered")
    rejected = Refuse("BadPriority")

    def __init__(self, sandbox: Sandbox, folder: Path) -> None:
        super().__init__(sandbox)
        self.stand_in = stand_in(sandbox)
        self.clock = MovableClock()
        self.key_file = self.stand_in.write_key(folder / "AuthKey.p8")

    def build(
        self,
        *,
        base_url: str | None = None,
        timeout_seconds: float = 5.0,
        concurrency: int = 20,
        **settings: Any,
    ) -> ApnsProvider:
        given: dict[str, Any] = {
            "key_file": self.key_file,
            "key_id": Apns.key_id,
            "team_id": Apns.team_id,
            "topic": TOPIC,
            "base_url": base_url or self.sandbox.https_url,
            "timeout": timeout_seconds,
            "max_concurrency": concurrency,
            "ca_file": self.sandbox.ca_file,
        }
        return ApnsProvider(ApnsSettings(**given | settings), clock=self.clock)

    def target(self, name: str) -> str:
        return name.encode().hex()

    def canned_answer(self, request_body: bytes) -> CannedAnswer:
        assert request_body
        return CannedAnswer(200, (("apns-id", "4a6f0c6e-0f0e-4d6c-9c7b-000000000001"),))

    def title_of(self, received: Any) -> str:
        title: str = received.message["aps"]["alert"]["title"]
        return title

    def take_one_token_in_20_minutes(self) -> None:
        """Let provider and stand-in go by the same clock, and the stand-in be as strict as Apple."""
        self.stand_in.clock = self.clock
        self.stand_in.provider_tokens.least_seconds_between = 20 * MINUTE

    async def proven_provider(self, **settings: Any) -> ApnsProvider:
        """Give a provider that has got a message through."""
        provider = self.provider(**settings)
        assert isinstance(provider, ApnsProvider)
        assert isinstance(await send_to(self, provider, "first"), Sent)
        return provider


def stand_in(sandbox: Sandbox) -> Apns:
    service = sandbox.service("apns")
    assert isinstance(service, Apns)
    return service


@pytest.fixture(scope="module")
async def running(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Sandbox]:
    async with Sandbox(SandboxSettings(folder=tmp_path_factory.mktemp("sandbox"))) as sandbox:
        yield sandbox


@pytest.fixture
async def rig(running: Sandbox, tmp_path: Path) -> AsyncIterator[ApnsRig]:
    running.reset()
    made = ApnsRig(running, tmp_path)
    yield made
    await made.aclose()
    made.stand_in.clock = time.time
    made.stand_in.gone_since = None
    made.stand_in.provider_tokens.forget()


class TestConformance(ProviderConformance, Http2Conformance):
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

    outcome = await send_to(rig, provider, "phone", look=Look(push_type="voip"))

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


async def test_one_provider_token_serves_all(rig: ApnsRig) -> None:
    rig.take_one_token_in_20_minutes()
    provider = await rig.proven_provider()

    outcomes = await asyncio.gather(*(send_to(rig, provider, f"phone{number}") for number in range(20)))

    assert {type(outcome) for outcome in outcomes} == {Sent}


async def test_a_provider_token_lives_between_20_and_60_minutes(rig: ApnsRig) -> None:
    rig.take_one_token_in_20_minutes()
    provider = await rig.proven_provider()

    for _ in range(180):
        rig.clock.ahead += MINUTE
        assert isinstance(await send_to(rig, provider, "phone"), Sent)

    assert rig.stats.answers == {"OK": 181}


async def test_a_pause_of_any_length_ends_with_a_fresh_token(rig: ApnsRig) -> None:
    rig.take_one_token_in_20_minutes()
    provider = await rig.proven_provider()

    for hours in (1, 5, 100):
        rig.clock.ahead += hours * HOUR
        assert isinstance(await send_to(rig, provider, "phone"), Sent)


async def test_a_clock_that_is_set_back_does_not_leave_a_token_of_the_future(rig: ApnsRig) -> None:
    rig.stand_in.clock = rig.clock
    provider = await rig.proven_provider()
    rig.clock.ahead -= 2 * HOUR

    assert isinstance(await send_to(rig, provider, "phone"), Sent)


async def test_an_expired_token_is_signed_anew_once_and_the_message_sent(rig: ApnsRig) -> None:
    # The stand-in takes one new token and no more: all that are refused have to share it.
    rig.take_one_token_in_20_minutes()
    provider = await rig.proven_provider()
    rig.clock.ahead += 30 * MINUTE
    for number in range(10):
        rig.script(f"phone{number}", Refuse("ExpiredProviderToken"))

    outcomes = await asyncio.gather(*(send_to(rig, provider, f"phone{number}") for number in range(10)))

    assert {type(outcome) for outcome in outcomes} == {Sent}
    assert rig.stats.answers == {"OK": 11, "ExpiredProviderToken": 10}


async def test_lasting_refusal_of_the_token_defers_and_alarms(rig: ApnsRig) -> None:
    provider = rig.provider()
    rig.script("phone", Refuse("ExpiredProviderToken"), repeat=True)

    outcomes = [await send_to(rig, provider, "phone") for _ in range(3)]

    assert outcomes == [Defer("ExpiredProviderToken", ALARM_REST, alarm=True)] * 3
    # The first is sent once more with a new token; that one is not replaced for 20 minutes.
    assert rig.stats.requests == 4


async def test_a_machine_whose_clock_is_hours_late_is_told_to_its_operator(rig: ApnsRig) -> None:
    rig.clock.ahead = -2 * HOUR

    outcome = await send_to(rig, rig.provider(), "phone")

    assert outcome == Defer("ExpiredProviderToken", ALARM_REST, alarm=True)


async def test_both_tries_keep_within_one_time_out(rig: ApnsRig) -> None:
    provider = await rig.proven_provider(timeout_seconds=1.0)
    rig.script("phone", Refuse("ExpiredProviderToken"), Hang())
    began = time.monotonic()

    outcome = await send_to(rig, provider, "phone")

    assert isinstance(outcome, Retry)
    assert outcome.code == "timeout"
    assert time.monotonic() - began < 1.9


async def test_too_many_updates_keep_the_old_token(rig: ApnsRig) -> None:
    rig.take_one_token_in_20_minutes()
    provider = await rig.proven_provider()
    rig.script("phone", Refuse("TooManyProviderTokenUpdates"))

    outcomes = [await send_to(rig, provider, "phone") for _ in range(2)]

    assert outcomes[0] == Defer("TooManyProviderTokenUpdates", UPDATES_REST)
    assert isinstance(outcomes[1], Sent)


@pytest.mark.parametrize("changes", [{"team_id": "OTHERTEAM1"}, {"key_id": "OTHERKEY01"}])
async def test_a_key_of_somebody_else_defers_and_alarms(rig: ApnsRig, changes: dict[str, str]) -> None:
    outcome = await send_to(rig, rig.provider(**changes), "phone")

    assert outcome == Defer("InvalidProviderToken", ALARM_REST, alarm=True)


async def test_tokens_and_keys_show_up_nowhere(rig: ApnsRig, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    provider = await rig.proven_provider()
    rig.script("phone", Refuse("InvalidProviderToken"))

    outcome = await send_to(rig, provider, "phone")

    told = repr(outcome) + repr(provider) + repr(vars(provider)) + caplog.text
    header = base64.urlsafe_b64encode(b'{"alg":"ES256"').decode()[:16]
    assert header not in told
    assert rig.key_file.read_text().splitlines()[1] not in told


def test_an_alert_is_written_as_apple_wants_it() -> None:
    look = Look(
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
    message = a_message("phone", look=look, data={"type": "new_customer", "aps": "mine"})

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
    look = Look(
        push_type="background",
        severity="critical",
        image="https://example.com/a.png",
        sound="chime.caf",
        badge=3,
        click_action="ORDER",
        deep_link="shop://orders/7",
    )
    message = a_message("phone", look=look)

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
    ("look", "topic", "push_type", "priority"),
    [
        (Look(), TOPIC, "alert", "10"),
        (Look(severity="critical"), TOPIC, "alert", "10"),
        (Look(push_type="background"), TOPIC, "background", "5"),
        (Look(push_type="voip"), f"{TOPIC}.voip", "voip", "10"),
    ],
)
async def test_the_headers_follow_the_push_type(
    rig: ApnsRig, look: Look, topic: str, push_type: str, priority: str
) -> None:
    message = rig.message("phone", look=look, collapse_key="order-7")

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
        return rig.message("phone", look=Look(push_type=push_type), data={"fill": "x" * size})

    empty = render(message(0))
    assert isinstance(empty, bytes)
    room = most - len(empty)
    outcomes = [(await rig.provider().send([message(size)], now=NOW))[0] for size in (room, room + 1)]

    assert isinstance(outcomes[0], Sent)
    assert outcomes[1] == Rejected("payload_too_large", f"{most + 1} bytes; APNs takes {most}")


def test_each_environment_has_its_address() -> None:
    assert HOSTS == {
        "production": "https://api.push.apple.com",
        "sandbox": "https://api.sandbox.push.apple.com",
    }


def good(rig: ApnsRig, **changes: Any) -> ApnsSettings:
    given: dict[str, Any] = {
        "key_file": rig.key_file,
        "key_id": "ABCDE12345",
        "team_id": "TEAM123456",
        "topic": TOPIC,
    }
    return ApnsSettings(**given | changes)


def test_settings_that_fit_have_no_fault(rig: ApnsRig) -> None:
    assert list(apns_settings_faults(ApnsSettings())) == []
    assert list(apns_settings_faults(good(rig))) == []
    assert list(apns_settings_faults(good(rig, base_url="https://127.0.0.1:2197"))) == []


@pytest.mark.parametrize(
    ("changes", "fields"),
    [
        ({"key_id": None}, ["apns.key_id"]),
        ({"team_id": "", "topic": None}, ["apns.team_id", "apns.topic"]),
        ({"key_file": None}, ["apns.key_file"]),
        ({"key_file": Path("missing.p8")}, ["apns.key_file"]),
        ({"topic": "com.example.shop.voip"}, ["apns.topic"]),
        ({"topic": "com.example\nshop"}, ["apns.topic"]),
        ({"base_url": "http://127.0.0.1:80"}, ["apns.base_url"]),
        ({"ca_file": Path("missing.pem")}, ["apns.ca_file"]),
    ],
)
def test_settings_that_contradict_are_named(rig: ApnsRig, changes: Any, fields: list[str]) -> None:
    settings = good(rig, **changes)

    assert [fault.field for fault in apns_settings_faults(settings)] == fields
    with pytest.raises(ProviderSetupError):
        ApnsProvider(settings)


def pem(key: Any, password: bytes | None = None) -> bytes:
    encryption: serialization.KeySerializationEncryption = serialization.NoEncryption()
    if password:
        encryption = serialization.BestAvailableEncryption(password)
    written: bytes = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption
    )
    return written


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"pr1vate",
        b"-----BEGIN PRIVATE KEY-----\ncHIxdmF0ZQ==\n-----END PRIVATE KEY-----\n",
        pem(rsa.generate_private_key(public_exponent=65_537, key_size=2_048)),
        pem(ec.generate_private_key(ec.SECP384R1())),
        pem(ec.generate_private_key(ec.SECP256R1()), b"secret"),
    ],
    ids=["empty", "text", "no key", "rsa", "p-384", "encrypted"],
)
def test_a_file_that_is_no_key_of_apple_is_named_without_its_content(
    rig: ApnsRig, tmp_path: Path, content: bytes
) -> None:
    path = tmp_path / "wrong.p8"
    path.write_bytes(content)

    (fault,) = apns_settings_faults(good(rig, key_file=path))

    assert (fault.field, fault.code) == ("apns.key_file", "invalid")
    assert "wrong.p8" in fault.message
    assert "pr1vate" not in fault.message
    with pytest.raises(ProviderSetupError, match=r"\.p8"):
        ApnsProvider(good(rig, key_file=path))


def test_without_a_key_there_is_no_provider() -> None:
    with pytest.raises(ProviderSetupError, match="TOCSIN_APNS__KEY_FILE"):
        ApnsProvider(ApnsSettings())


async def test_an_untrusted_certificate_is_a_retry(rig: ApnsRig) -> None:
    outcome = await send_to(rig, rig.provider(ca_file=None), "phone")

    assert isinstance(outcome, Retry)
    assert outcome.code == "network_error"
