import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.providers.rig import NOW, a_message, send_one
from tests.providers.webpush.subscriptions import KEYS, encoded, subscription
from tocsin.domain.delivery.message import ManyHosts, PushAppearance
from tocsin.domain.delivery.outcome import Gone, Rejected, Retry
from tocsin.domain.errors import ProviderSetupError
from tocsin.providers.webpush.answers import RULES, classify
from tocsin.providers.webpush.crypto import new_private_key_pem
from tocsin.providers.webpush.provider import WebPushProvider
from tocsin.providers.webpush.render import headers, render
from tocsin.providers.webpush.settings import WebPushSettings

PEM = new_private_key_pem()
SUBJECT = "mailto:ops@example.com"


@given(st.integers(100, 999), st.text(max_size=500))
def test_every_answer_has_an_outcome(status: int, detail: str) -> None:
    outcome = classify(status, detail, None)

    assert len(outcome.detail) <= 300
    assert not isinstance(outcome, Gone) or status in {404, 410}
    assert not isinstance(outcome, Rejected) or 400 <= status < 500


def test_what_means_something_to_an_app_alone_stays_out_of_a_browsers_fields() -> None:
    appearance = PushAppearance(icon="ic_order", deep_link="shop://orders/7", push_type="background")
    written = render(a_message("x", appearance=appearance))

    assert isinstance(written, bytes)
    content = msgspec.json.decode(written)
    assert set(content) == {"title", "body", "tag", "data", "silent"}
    assert content["data"]["deep_link"] == "shop://orders/7"


@pytest.mark.parametrize(
    ("left", "ttl"),
    [
        (None, "2419200"),
        (timedelta(seconds=-5), "0"),
        (timedelta(seconds=1.9), "1"),
        (timedelta(days=400), "2419200"),
    ],
)
def test_the_time_to_live_stays_within_four_weeks(left: timedelta | None, ttl: str) -> None:
    expires_at = None if left is None else NOW + left

    assert headers(a_message("x", expires_at=expires_at), NOW)["ttl"] == ttl


@pytest.mark.parametrize(
    ("appearance", "urgency"),
    [
        (PushAppearance(), "normal"),
        (PushAppearance(severity="warning"), "high"),
        (PushAppearance(severity="critical"), "high"),
        (PushAppearance(push_type="background", severity="critical"), "low"),
    ],
)
def test_urgency_follows_severity(appearance: PushAppearance, urgency: str) -> None:
    assert headers(a_message("x", appearance=appearance), NOW)["urgency"] == urgency


@pytest.mark.parametrize("key", ["order-7", "x" * 32])
def test_a_collapse_key_that_fits_is_the_topic(key: str) -> None:
    assert headers(a_message("x", collapse_key=key), NOW)["topic"] == key


@given(st.text(min_size=1, max_size=200))
def test_every_collapse_key_has_a_topic_of_its_own(key: str) -> None:
    topic = headers(a_message("x", collapse_key=key), NOW)["topic"]

    assert 1 <= len(topic) <= 32
    assert set(topic) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")
    assert headers(a_message("x", collapse_key=key + "!"), NOW)["topic"] != topic


def test_without_a_collapse_key_there_is_no_topic() -> None:
    assert "topic" not in headers(a_message("x"), NOW)


@pytest.mark.parametrize(
    ("token", "fault"),
    [
        ("", "is not a push subscription"),
        ("cQx:APA91b", "is not a push subscription"),
        ("[]", "is not a push subscription"),
        ('{"endpoint": "https://push.example.com/"}', "is not a push subscription"),
        ("\ud800", "is not a push subscription"),
        (subscription("http://push.example.com/s"), "does not begin with https://"),
        (subscription("https://127.0.0.1/s"), "names a private or reserved address"),
        (subscription("https://localhost/s"), "names a host of a local network"),
        (subscription("https://me@push.example.com/s"), "carries a user name or password"),
        (subscription("nowhere"), "is not a URL"),
        (subscription(auth="AAAA"), "keys.auth that is not 16 bytes"),
        (subscription(auth="?"), "keys.auth that is not 16 bytes"),
        (subscription(p256dh="AAAA"), "keys.p256dh that is not 65 bytes"),
        (subscription(p256dh=encoded(b"\x04" + b"\x01" * 64)), "no point of the P-256 curve"),
    ],
)
async def test_a_subscription_that_cannot_be_used_is_refused_and_retired(token: str, fault: str) -> None:
    provider = WebPushProvider(WebPushSettings(subject=SUBJECT), PEM)

    outcome = await send_one(provider, token)

    assert isinstance(outcome, Gone)
    assert outcome.code == "invalid_subscription"
    assert fault in outcome.detail


@pytest.mark.parametrize("end", ["", "="])
async def test_a_subscription_as_browsers_give_it_can_be_sent_to(end: str) -> None:
    provider = WebPushProvider(
        WebPushSettings(subject=SUBJECT, timeout=0.001, allow_private_addresses=True), PEM
    )

    outcome = await send_one(provider, subscription("https://127.0.0.1:1/s", p256dh=KEYS["p256dh"] + end))

    assert isinstance(outcome, Retry)
    assert outcome.code in {"timeout", "network_error"}


async def test_only_so_many_browsers_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tocsin.providers.webpush.provider.MOST_BROWSERS", 2)
    provider = WebPushProvider(WebPushSettings(subject=SUBJECT), PEM)

    # Too long for a browser: parsed, and never sent.
    outcomes = [
        await send_one(provider, subscription(f"https://push.example.com/s/{number}"), body="x" * 4_000)
        for number in (1, 2, 3, 3)
    ]

    assert {type(outcome) for outcome in outcomes} == {Rejected}
    remembered = provider._browser.cache_info()
    assert (remembered.currsize, remembered.hits) == (2, 1)
    assert "push.example.com" not in repr(provider._browser(subscription("https://push.example.com/s/3")))


def test_each_push_service_is_a_host_of_its_own() -> None:
    provider = WebPushProvider(WebPushSettings(subject=SUBJECT), PEM)

    assert isinstance(provider, ManyHosts)
    assert provider.host_of(subscription("https://Push.Example.com/s/1")) == "push.example.com"
    assert provider.host_of(subscription("https://push.example.com:8443/s/1")) == "push.example.com:8443"
    for nonsense in ("", "x", "[]", '{"endpoint": "nowhere"}', '{"endpoint": 1}'):
        assert provider.host_of(nonsense) == ""


def test_settings_are_checked_when_web_push_is_on() -> None:
    def codes(**settings: Any) -> list[str]:
        return [fault.code for fault in WebPushSettings(**settings).faults()]

    assert codes() == []
    assert codes(enabled=True) == ["missing"]
    for wrong in ("ops@example.com", "mailto:", "http://example.com/contact", "https://", "mailto:a b@c.de"):
        assert codes(enabled=True, subject=wrong) == ["invalid"]
    for right in (SUBJECT, "https://example.com/contact"):
        assert codes(enabled=True, subject=right) == []


def test_certificates_that_are_not_there_are_a_fault(tmp_path: Path) -> None:
    here, missing = tmp_path / "here.pem", tmp_path / "missing.pem"
    here.touch()

    def fields(**settings: Any) -> list[str]:
        return [fault.field for fault in WebPushSettings(**settings).faults()]

    assert fields(enabled=True, subject=SUBJECT, ca_file=missing) == ["webpush.ca_file"]
    assert fields(enabled=True, ca_file=missing) == ["webpush.subject", "webpush.ca_file"]
    assert fields(enabled=True, subject=SUBJECT, ca_file=here) == []


def test_a_key_or_subject_that_is_missing_stops_the_start(tmp_path: Path) -> None:
    with pytest.raises(ProviderSetupError, match="TOCSIN_WEBPUSH__SUBJECT"):
        WebPushProvider(WebPushSettings(), PEM)
    with pytest.raises(ProviderSetupError, match="P-256"):
        WebPushProvider(WebPushSettings(subject=SUBJECT), "nothing of the kind")
    with pytest.raises(ProviderSetupError, match=r"TOCSIN_WEBPUSH__PRIVATE_KEY_FILE=.*key\.pem"):
        WebPushSettings(private_key_file=tmp_path / "key.pem").private_key()
    (tmp_path / "key.pem").write_bytes(b"\xff\xfe")
    with pytest.raises(ProviderSetupError, match="it is not text"):
        WebPushSettings(private_key_file=tmp_path / "key.pem").private_key()
    (tmp_path / "key.pem").write_text(PEM)
    assert WebPushSettings(private_key_file=tmp_path / "key.pem").private_key() == PEM
    assert WebPushSettings().private_key() is None


def test_the_table_of_answers_is_documented() -> None:
    page = Path(__file__).parents[3] / "docs" / "reference" / "webpush.md"
    rows = re.findall(r"^\| (\d{3}) \| `(\w+)` \| `(\w+)` \|", page.read_text("utf-8"), re.MULTILINE)

    assert rows == [(str(rule.status), rule.code, rule.outcome) for rule in RULES if rule.status]
    assert [rule.code for rule in RULES if not rule.status] == ["vapid_key_mismatch"]
    assert "| 400, 401, 403 | `vapid_key_mismatch` | `rejected` |" in page.read_text("utf-8")
