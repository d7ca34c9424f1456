"""What FCM is handed for each platform, held against the schema of its stand-in, and whom it may be for."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.providers.conformance import NOW, a_message, send_one
from tocsin.domain.delivery.message import DEFAULT_APPEARANCE, PushAppearance
from tocsin.domain.delivery.outcome import Rejected, Sent
from tocsin.providers.fcm.provider import FcmProvider
from tocsin.providers.fcm.render import TOPIC_BYTES, render
from tocsin.providers.fcm.settings import FcmSettings
from tocsin.sandbox import Refuse, Sandbox, SandboxSettings
from tocsin.sandbox.fcm.message import Target, check_message
from tocsin.sandbox.fcm.schema import read_request

EVERYTHING = PushAppearance(
    severity="critical",
    image="https://example.com/7.jpg",
    icon="https://example.com/icon.png",
    sound="chime.caf",
    badge=3,
    deep_link="https://example.com/orders/7",
    route="/orders/7",
    click_action="OPEN_ORDER",
    channel="orders",
    analytics_label="order-paid",
)


def handed(appearance: PushAppearance, **changes: Any) -> dict[str, Any]:
    """Give what FCM is handed, which its schema must take."""
    body = render(a_message("phone", appearance=appearance, **changes), NOW)
    assert isinstance(body, bytes)
    assert check_message(read_request(body).message, len(body)) == Target("token", "phone")
    message: dict[str, Any] = msgspec.json.decode(body)["message"]
    return message


def test_an_alert_has_the_words_of_every_platform() -> None:
    message = handed(EVERYTHING, collapse_key="order-7")

    assert message["notification"] == {"title": "New customer", "body": "Ali Veli"}
    assert message["fcm_options"] == {"analytics_label": "order-paid"}
    assert message["android"] == {
        "priority": "HIGH",
        "ttl": "3600s",
        "collapse_key": "order-7",
        "notification": {
            "tag": "order-7",
            "image": "https://example.com/7.jpg",
            "sound": "chime.caf",
            "click_action": "OPEN_ORDER",
            "channel_id": "orders",
            "notification_count": 3,
            "notification_priority": "PRIORITY_MAX",
        },
    }
    assert message["apns"] == {
        "headers": {
            "apns-collapse-id": "order-7",
            "apns-expiration": str(int(datetime(2026, 3, 1, 13, tzinfo=UTC).timestamp())),
            "apns-push-type": "alert",
            "apns-priority": "10",
        },
        "payload": {
            "aps": {
                "sound": "chime.caf",
                "badge": 3,
                "category": "OPEN_ORDER",
                "mutable-content": 1,
                "interruption-level": "time-sensitive",
            }
        },
        "fcm_options": {"image": "https://example.com/7.jpg"},
    }
    assert message["webpush"] == {
        "headers": {"Urgency": "high"},
        "notification": {"icon": "https://example.com/icon.png", "image": "https://example.com/7.jpg"},
        "fcm_options": {"link": "https://example.com/orders/7"},
    }
    assert message["data"]["deep_link"] == "https://example.com/orders/7"
    assert message["data"]["route"] == "/orders/7"
    assert message["data"]["type"] == "new_customer"


def test_a_background_push_is_data_alone() -> None:
    message = handed(msgspec.structs.replace(EVERYTHING, push_type="background"), collapse_key="sync")

    assert set(message) == {"token", "data", "android", "apns", "fcm_options"}
    assert message["android"] == {"priority": "NORMAL", "ttl": "3600s", "collapse_key": "sync"}
    assert message["apns"]["payload"] == {"aps": {"content-available": 1}}
    assert message["apns"]["headers"]["apns-push-type"] == "background"
    assert message["apns"]["headers"]["apns-priority"] == "5"
    assert message["data"]["route"] == "/orders/7"


def test_a_voip_push_is_an_alert_here() -> None:
    message = handed(PushAppearance(push_type="voip"))

    assert message["notification"]["title"] == "New customer"
    assert (message["android"]["priority"], message["apns"]["headers"]["apns-push-type"]) == ("HIGH", "alert")


def test_an_icon_that_is_no_address_is_a_drawable_of_the_android_app() -> None:
    message = handed(PushAppearance(icon="ic_order"))

    assert message["android"]["notification"]["icon"] == "ic_order"
    assert "webpush" not in message


def test_a_link_that_no_browser_opens_is_for_the_app_alone() -> None:
    message = handed(PushAppearance(deep_link="shop://orders/7"))

    assert message["data"]["deep_link"] == "shop://orders/7"
    assert "webpush" not in message


def test_a_badge_of_zero_clears_it() -> None:
    message = handed(PushAppearance(badge=0))

    assert message["android"]["notification"]["notification_count"] == 0
    assert message["apns"]["payload"] == {"aps": {"badge": 0}}


@pytest.mark.parametrize(
    ("severity", "android", "urgency"),
    [("info", None, None), ("warning", "PRIORITY_HIGH", "high"), ("critical", "PRIORITY_MAX", "high")],
)
def test_severity_raises_the_priority_of_what_is_shown(
    severity: Any, android: str | None, urgency: str | None
) -> None:
    message = handed(PushAppearance(severity=severity, sound="chime.caf"))

    assert message["android"]["notification"].get("notification_priority") == android
    assert message.get("webpush", {}).get("headers", {}).get("Urgency") == urgency
    assert message["android"]["priority"] == "HIGH"


def test_the_message_itself_is_left_as_it_was() -> None:
    message = a_message("phone", appearance=EVERYTHING)
    data = dict(message.data)

    assert render(message, NOW) == render(message, NOW)
    assert message.data == data


WORDS = st.none() | st.text(min_size=1, max_size=20)
LOOKS = st.builds(
    PushAppearance,
    push_type=st.sampled_from(["alert", "background", "voip"]),
    severity=st.sampled_from(["info", "warning", "critical"]),
    image=WORDS,
    icon=WORDS,
    sound=WORDS,
    badge=st.none() | st.integers(0, 99_999),
    deep_link=WORDS,
    route=WORDS,
    click_action=WORDS,
    channel=WORDS,
    analytics_label=WORDS,
)


@given(LOOKS)
def test_whatever_the_appearance_the_schema_takes_it(appearance: PushAppearance) -> None:
    assert handed(appearance)["token"] == "phone"


def test_a_plain_look_adds_nothing() -> None:
    assert handed(DEFAULT_APPEARANCE).keys() == {"token", "notification", "data", "android", "apns"}


@pytest.mark.parametrize("kind", ["token", "fid", "topic", "condition"])
def test_a_message_has_one_target_of_its_kind(kind: Any) -> None:
    body = render(a_message("x", target_kind=kind), NOW)

    assert isinstance(body, bytes)
    message = msgspec.json.decode(body)["message"]
    assert {name: message.get(name) for name in ("token", "fid", "topic", "condition")} == {
        name: "x" if name == kind else None for name in ("token", "fid", "topic", "condition")
    }


@pytest.mark.parametrize(
    ("kind", "most"), [("token", 4_096), ("fid", 4_096), ("topic", TOPIC_BYTES), ("condition", 2_048)]
)
def test_a_message_to_topics_carries_half_as_much(kind: Any, most: int) -> None:
    message = a_message("x", target_kind=kind, title="", body="")
    room = most - sum(len(key) + len(value) for key, value in message.data.items())

    assert isinstance(render(msgspec.structs.replace(message, body="é" * (room // 2)), NOW), bytes)
    refused = render(msgspec.structs.replace(message, body="é" * (room // 2 + 1)), NOW)
    assert isinstance(refused, Rejected)
    assert (refused.code, str(most) in refused.detail) == ("payload_too_large", True)


def test_the_look_counts_against_the_size() -> None:
    appearance = PushAppearance(image="https://example.com/" + "x" * 1_500, deep_link="shop://" + "x" * 1_500)

    assert isinstance(render(a_message("phone", appearance=appearance, body="x" * 900), NOW), bytes)
    assert isinstance(render(a_message("phone", appearance=appearance, body="x" * 1_100), NOW), Rejected)


@pytest.fixture
async def sandbox(tmp_path: Path) -> AsyncIterator[Sandbox]:
    async with Sandbox(SandboxSettings(folder=tmp_path / "sandbox")) as running:
        yield running


@pytest.fixture
async def provider(sandbox: Sandbox, tmp_path: Path) -> AsyncIterator[FcmProvider]:
    account = sandbox.write_service_account(tmp_path / "account.json")
    made = FcmProvider(
        FcmSettings(credentials_file=account, base_url=sandbox.https_url, ca_file=sandbox.ca_file)
    )
    yield made
    await made.aclose()


@pytest.mark.parametrize(
    ("kind", "target"),
    [
        ("token", "phone"),
        ("fid", "cQx1-abc"),
        ("topic", "news"),
        ("condition", "'news' in topics && !('sports' in topics)"),
    ],
)
async def test_every_kind_of_target_is_taken(
    sandbox: Sandbox, provider: FcmProvider, kind: Any, target: str
) -> None:
    outcome = await send_one(provider, target, target_kind=kind, appearance=EVERYTHING)

    assert isinstance(outcome, Sent)
    (received,) = sandbox.phones.messages(after=0, limit=10)
    assert (received.target_kind, received.target) == (kind, target)


async def test_a_topic_is_no_secret_and_spoils_no_answer(sandbox: Sandbox, provider: FcmProvider) -> None:
    sandbox.faults.script("error", Refuse("INVALID_ARGUMENT"))

    outcome = await send_one(provider, "error", target_kind="topic")

    assert outcome == Rejected("INVALID_ARGUMENT", "Invalid value at 'message.data'.")
