import asyncio
import logging
import re
from base64 import urlsafe_b64encode
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import http_ece  # type: ignore[import-untyped]
import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given
from hypothesis import strategies as st

from providers.conformance import (
    NOW,
    CannedAnswer,
    Http2Conformance,
    ProviderConformance,
    Rig,
    a_message,
    send_one,
    send_to,
)
from providers.http2_peer import Http2Peer
from tocsin.domain.errors import ProviderSetupError
from tocsin.domain.message import Look, ManyHosts
from tocsin.domain.outcome import Defer, Gone, Outcome, Rejected, Retry, Sent
from tocsin.providers.guard import Guard
from tocsin.providers.webpush import (
    WebPushProvider,
    WebPushSettings,
    headers,
    read_private_key_file,
    render,
    webpush_settings_faults,
)
from tocsin.providers.webpush_answers import ALARM_REST, QUOTA_REST, RULES, classify
from tocsin.providers.webpush_crypto import new_private_key_pem, point, public_key_of
from tocsin.providers.webpush_subscription import host_of, read_subscription, subscription_fault
from tocsin.sandbox import Outage, Quota, Refuse, Sandbox, SandboxSettings
from tocsin.sandbox.phones import Received
from tocsin.sandbox.webpush import WebPush

PEM = new_private_key_pem()
SUBJECT = "mailto:ops@example.com"
SECOND = timedelta(seconds=1)


class WebPushRig(Rig):
    service = "webpush"
    busy = Refuse("UNAVAILABLE", retry_after=7)
    quota = Refuse("TOO_MANY_REQUESTS", retry_after=90)
    gone = Refuse("GONE")
    rejected = Refuse("BAD_REQUEST")

    def __init__(self, sandbox: Sandbox) -> None:
        super().__init__(sandbox)
        stand_in = sandbox.service("webpush")
        assert isinstance(stand_in, WebPush)
        self.stand_in = stand_in

    def build(
        self,
        *,
        base_url: str | None = None,  # noqa: ARG002 - a subscription says itself where it lives
        timeout_seconds: float = 5.0,
        concurrency: int = 20,
        **settings: Any,
    ) -> WebPushProvider:
        chosen: dict[str, Any] = {
            "enabled": True,
            "subject": SUBJECT,
            "timeout": timeout_seconds,
            "max_concurrency": concurrency,
            "ca_file": self.sandbox.ca_file,
            "allow_private_addresses": True,
        }
        return WebPushProvider(WebPushSettings(**chosen | settings), PEM)

    def target(self, name: str) -> str:
        return self.target_at(name, self.sandbox.https_url)

    def target_at(self, name: str, base_url: str) -> str:
        return msgspec.json.encode(self.stand_in.subscribe(name, base_url)).decode()

    def key(self, name: str) -> str:
        return name

    def canned_answer(self, request_body: bytes) -> CannedAnswer:
        assert request_body
        return CannedAnswer(201, (("location", "https://push.example.com/m/1"),))

    def title_of(self, received: Received) -> str:
        title: str = received.message["content"]["title"]
        return title


@pytest.fixture(scope="module")
async def running(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Sandbox]:
    async with Sandbox(SandboxSettings(folder=tmp_path_factory.mktemp("sandbox"))) as sandbox:
        yield sandbox


@pytest.fixture
async def rig(running: Sandbox) -> AsyncIterator[WebPushRig]:
    running.reset()
    made = WebPushRig(running)
    yield made
    await made.aclose()


class TestConformance(ProviderConformance, Http2Conformance):
    pass


def encoded(content: bytes) -> str:
    return urlsafe_b64encode(content).decode().rstrip("=")


AUTH = b"0123456789abcdef"
BROWSER = ec.generate_private_key(ec.SECP256R1())
KEYS = {"p256dh": encoded(point(BROWSER.public_key())), "auth": encoded(AUTH)}


def subscription(endpoint: str = "https://push.example.com/s/abcdefgh", **keys: str) -> str:
    content = {"endpoint": endpoint, "expirationTime": None, "keys": KEYS | keys}
    return msgspec.json.encode(content).decode()


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("BAD_REQUEST", Rejected("bad_request", "Invalid request.")),
        ("NOT_FOUND", Gone("not_found", "There is no such subscription.")),
        ("GONE", Gone("subscription_gone", "push subscription has unsubscribed or expired.")),
        ("PAYLOAD_TOO_LARGE", Rejected("payload_too_large", "The body is larger than 4096 bytes.")),
        ("TOO_MANY_REQUESTS", Defer("too_many_requests", QUOTA_REST, "Too many messages.")),
        ("NOT_ACCEPTABLE", Defer("throttled", QUOTA_REST, "The sender is throttled.")),
        (
            "UNAUTHORIZED",
            Defer(
                "unauthorized",
                ALARM_REST,
                "The authorization header is missing or cannot be read.",
                alarm=True,
            ),
        ),
        (
            "FORBIDDEN",
            Defer(
                "forbidden",
                ALARM_REST,
                "The signature of the authorization header is not valid.",
                alarm=True,
            ),
        ),
        ("INTERNAL_ERROR", Retry("http_500", "Internal error.")),
        ("BAD_GATEWAY", Retry("http_502", "Bad gateway.")),
        ("UNAVAILABLE", Retry("http_503", "The service is not available.")),
        ("REDIRECT", Retry("http_307")),
    ],
)
async def test_each_answer_is_understood(rig: WebPushRig, code: str, expected: Outcome) -> None:
    rig.script("browser", Refuse(code))

    assert await send_to(rig, rig.provider(), "browser") == expected


@pytest.mark.parametrize(
    "code", ["VAPID_CREDENTIALS_MISMATCH", "VAPID_PUBLIC_KEY_MISMATCH", "VAPID_PK_HASH_MISMATCH"]
)
async def test_a_subscription_made_with_another_key_is_set_aside_alone(rig: WebPushRig, code: str) -> None:
    rig.script("browser", Refuse(code))

    outcome = await send_to(rig, rig.provider(), "browser")

    assert isinstance(outcome, Rejected)
    assert (outcome.code, outcome.quarantine) == ("vapid_key_mismatch", True)


@pytest.mark.parametrize("code", ["TOO_MANY_REQUESTS", "NOT_ACCEPTABLE"])
@pytest.mark.parametrize(("asked", "after"), [(None, 60 * SECOND), (0, SECOND), (5, 5 * SECOND)])
async def test_a_quota_defers_as_long_as_asked(
    rig: WebPushRig, code: str, asked: int | None, after: timedelta
) -> None:
    rig.script("browser", Refuse(code, retry_after=asked))

    outcome = await send_to(rig, rig.provider(), "browser")

    assert isinstance(outcome, Defer)
    assert (outcome.after, outcome.pauses, outcome.alarm) == (after, True, False)


@given(st.integers(100, 999), st.text(max_size=500))
def test_every_answer_has_an_outcome(status: int, detail: str) -> None:
    outcome = classify(status, detail, None)

    assert len(outcome.detail) <= 300
    assert not isinstance(outcome, Gone) or status in {404, 410}
    assert not isinstance(outcome, Rejected) or 400 <= status < 500


async def test_a_browser_that_left_is_gone_and_the_others_get_theirs(rig: WebPushRig) -> None:
    batch = [rig.message(name) for name in ("one", "two", "three")]
    rig.stand_in.unsubscribe("two")

    outcomes = await rig.provider().send(batch, now=NOW)

    assert [type(outcome) for outcome in outcomes] == [Sent, Gone, Sent]
    assert [received.target for received in rig.arrivals] == ["one", "three"]


async def test_an_outage_is_a_retry_and_a_quota_a_deferral(rig: WebPushRig) -> None:
    provider = rig.provider()
    rig.faults.outage(Outage(retry_after=3))
    assert await send_to(rig, provider, "a") == Retry("http_503", "The service is not available.", 3 * SECOND)
    rig.faults.outage(None)
    rig.faults.project_quota(Quota(1, retry_after=30))

    outcomes = [await send_to(rig, provider, name) for name in ("a", "b")]

    assert isinstance(outcomes[0], Sent)
    assert isinstance(outcomes[1], Defer)
    assert outcomes[1].after == 30 * SECOND


async def test_the_browser_reads_what_the_message_says(rig: WebPushRig) -> None:
    look = Look(
        icon="https://example.com/i.png",
        image="https://example.com/p.png",
        badge=3,
        deep_link="https://example.com/orders/7",
        route="/orders/7",
        severity="critical",
    )
    message = rig.message("browser", look=look, locale="tr-TR", collapse_key="order-7")

    await rig.provider().send([message], now=NOW)

    (received,) = rig.arrivals
    assert received.message == {
        "headers": {"ttl": 3_600, "urgency": "high", "topic": "order-7"},
        "content": {
            "title": "New customer",
            "body": "Ali Veli",
            "tag": "order-7",
            "data": {
                "type": "new_customer",
                "delivery_id": str(message.delivery_id),
                "deep_link": "https://example.com/orders/7",
                "route": "/orders/7",
            },
            "icon": "https://example.com/i.png",
            "image": "https://example.com/p.png",
            "badge": 3,
            "url": "https://example.com/orders/7",
            "lang": "tr-TR",
            "severity": "critical",
        },
    }


def test_what_means_something_to_an_app_alone_stays_out_of_a_browsers_fields() -> None:
    look = Look(icon="ic_order", deep_link="shop://orders/7", push_type="background")
    written = render(a_message("x", look=look))

    assert isinstance(written, bytes)
    content = msgspec.json.decode(written)
    assert set(content) == {"title", "body", "tag", "data", "silent"}
    assert content["data"]["deep_link"] == "shop://orders/7"


async def test_http_ece_reads_the_body_with_the_keys_of_the_browser(rig: WebPushRig) -> None:
    bodies: list[bytes] = []

    def take(body: bytes) -> CannedAnswer:
        bodies.append(body)
        return CannedAnswer(201)

    async with Http2Peer(rig.sandbox.ca_file.parent, take) as peer:
        messages = [a_message(subscription(f"{peer.url}/s"), title=f"{number}") for number in range(3)]
        outcomes = await rig.provider().send(messages, now=NOW)

    assert outcomes == [Sent(str(message.delivery_id)) for message in messages]
    plaintexts = [
        http_ece.decrypt(body, private_key=BROWSER, auth_secret=AUTH, version="aes128gcm") for body in bodies
    ]
    assert set(plaintexts) == set(map(render, messages))


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
    ("look", "urgency"),
    [
        (Look(), "normal"),
        (Look(severity="warning"), "high"),
        (Look(severity="critical"), "high"),
        (Look(push_type="background", severity="critical"), "low"),
    ],
)
def test_urgency_follows_severity(look: Look, urgency: str) -> None:
    assert headers(a_message("x", look=look), NOW)["urgency"] == urgency


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


async def test_what_just_fits_is_sent_and_a_byte_more_is_not(rig: WebPushRig) -> None:
    empty = render(rig.message("browser", body=""))
    assert isinstance(empty, bytes)
    room = WebPushProvider.limits.payload_bytes - len(empty)
    provider = rig.provider()

    assert isinstance(await send_to(rig, provider, "browser", body="x" * room), Sent)
    outcome = await send_to(rig, provider, "browser", body="x" * (room + 1))

    assert outcome == Rejected("payload_too_large", "3994 bytes; a browser takes 3993")
    assert rig.stats.requests == 1


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

    assert fault in (subscription_fault(token) or "")
    assert isinstance(outcome, Gone)
    assert outcome.code == "invalid_subscription"
    assert fault in outcome.detail


@pytest.mark.parametrize("end", ["", "="])
def test_a_subscription_as_browsers_give_it_has_no_fault(end: str) -> None:
    assert subscription_fault(subscription(p256dh=KEYS["p256dh"] + end)) is None
    assert subscription_fault(subscription("https://127.0.0.1/s"), allow_private=True) is None


async def test_a_private_address_is_never_called(rig: WebPushRig) -> None:
    outcome = await send_to(rig, rig.provider(allow_private_addresses=False), "browser")

    assert isinstance(outcome, Gone)
    assert outcome.code == "invalid_subscription"
    assert rig.stats.requests == 0


async def test_a_name_that_stands_for_a_private_address_is_never_called(
    rig: WebPushRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def lookup(_: str) -> list[str]:
        return ["127.0.0.1"]

    provider = rig.provider(allow_private_addresses=False)
    assert isinstance(provider, WebPushProvider)
    monkeypatch.setattr(provider._guard, "_lookup", lookup)
    port = rig.address.port

    outcome = await send_to(rig, provider, "browser", at=f"https://push.example.com:{port}")

    assert outcome == Retry("address_refused", "the push service stands for a private or reserved address")
    assert rig.stats.requests == 0


async def test_a_name_without_an_address_is_a_retry(rig: WebPushRig, monkeypatch: pytest.MonkeyPatch) -> None:
    async def lookup(_: str) -> list[str]:
        raise OSError

    provider = rig.provider()
    assert isinstance(provider, WebPushProvider)
    monkeypatch.setattr(provider._guard, "_lookup", lookup)

    outcome = await send_to(rig, provider, "browser", at="https://push.example.com")

    assert outcome == Retry("network_error", "the host's name stands for no address")


def test_each_push_service_is_a_host_of_its_own() -> None:
    provider = WebPushProvider(WebPushSettings(subject=SUBJECT), PEM)

    assert isinstance(provider, ManyHosts)
    assert provider.host_of(subscription("https://Push.Example.com/s/1")) == "push.example.com"
    assert provider.host_of(subscription("https://push.example.com:8443/s/1")) == "push.example.com:8443"
    for nonsense in ("", "x", "[]", '{"endpoint": "nowhere"}', '{"endpoint": 1}'):
        assert host_of(nonsense) == ""


async def test_a_signature_is_made_once_for_many_and_anew_after_a_refusal(rig: WebPushRig) -> None:
    provider = rig.provider()
    assert isinstance(provider, WebPushProvider)
    await asyncio.gather(*(send_to(rig, provider, f"browser{number}") for number in range(10)))
    (shown,) = provider._vapid._headers.values()
    rig.script("browser", Refuse("FORBIDDEN"))
    await send_to(rig, provider, "browser")
    assert not provider._vapid._headers

    assert isinstance(await send_to(rig, provider, "browser"), Sent)
    assert shown not in provider._vapid._headers.values()


async def test_a_browser_subscribed_to_another_key_refuses(rig: WebPushRig) -> None:
    base_url = rig.sandbox.https_url
    own = rig.stand_in.subscribe("own", base_url, sender_key=public_key_of(PEM))
    other = rig.stand_in.subscribe("other", base_url, sender_key=public_key_of(new_private_key_pem()))
    batch = [a_message(msgspec.json.encode(each).decode()) for each in (own, other)]

    outcomes = await rig.provider().send(batch, now=NOW)

    assert isinstance(outcomes[0], Sent)
    assert isinstance(outcomes[1], Rejected)
    assert outcomes[1].quarantine


async def test_keys_and_signatures_show_up_nowhere(rig: WebPushRig, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    provider = rig.provider()
    rig.script("browser", Refuse("FORBIDDEN"))

    outcomes = [await send_to(rig, provider, "browser") for _ in range(2)]

    told = repr(outcomes) + repr(provider) + repr(vars(provider)) + caplog.text
    assert PEM[40:80] not in told
    assert "vapid t=" not in told
    assert "abcdefgh" not in repr(read_subscription(subscription(), Guard()))


@pytest.mark.parametrize(
    "words", ["no such thing: {url}", '{{"url": "{url}", "id": "{last}"}}', "{last} is not known\x00\x1b[31m"]
)
async def test_an_answer_that_quotes_the_endpoint_does_not_give_it_away(rig: WebPushRig, words: str) -> None:
    last = "s3cretTokenOfABrowser"

    def quote(_: bytes) -> CannedAnswer:
        return CannedAnswer(400, (), words.format(url=f"{peer.url}/wpush/v2/{last}", last=last).encode())

    async with Http2Peer(rig.sandbox.ca_file.parent, quote) as peer:
        outcome = await send_one(rig.provider(), subscription(f"{peer.url}/wpush/v2/{last}"))

    assert isinstance(outcome, Rejected)
    assert "[endpoint]" in outcome.detail
    assert "s3cret" not in repr(outcome)
    assert outcome.detail.isprintable()


@pytest.mark.parametrize(
    ("headers_given", "message_id"),
    [
        ((("location", "https://push.example.com/m/abc"),), "abc"),
        ((("location", "/m/abc/"),), "abc"),
        ((("apns-id", "A1"),), "A1"),
        ((("x-wns-msg-id", "W1"),), "W1"),
        ((("location", "https://push.example.com/s/" + "x" * 300),), "x" * 255),
        # This one gives the endpoint itself as the place of the message.
        ((("location", "/wpush/s3cretToken"), ("apns-id", "A2")), "A2"),
    ],
)
async def test_a_message_is_named_as_its_push_service_names_it(
    rig: WebPushRig, headers_given: tuple[tuple[str, str], ...], message_id: str
) -> None:
    async with Http2Peer(rig.sandbox.ca_file.parent, lambda _: CannedAnswer(201, headers_given)) as peer:
        outcome = await send_one(rig.provider(), subscription(f"{peer.url}/wpush/s3cretToken"))

    assert outcome == Sent(message_id)


def test_settings_are_checked_when_web_push_is_on() -> None:
    def codes(**settings: Any) -> list[str]:
        return [fault.code for fault in webpush_settings_faults(WebPushSettings(**settings))]

    assert codes() == []
    assert codes(enabled=True) == ["missing"]
    for wrong in ("ops@example.com", "mailto:", "http://example.com/contact", "https://", "mailto:a b@c.de"):
        assert codes(enabled=True, subject=wrong) == ["invalid"]
    for right in (SUBJECT, "https://example.com/contact"):
        assert codes(enabled=True, subject=right) == []


def test_a_key_or_subject_that_is_missing_stops_the_start(tmp_path: Path) -> None:
    with pytest.raises(ProviderSetupError, match="TOCSIN_WEBPUSH__SUBJECT"):
        WebPushProvider(WebPushSettings(), PEM)
    with pytest.raises(ProviderSetupError, match="P-256"):
        WebPushProvider(WebPushSettings(subject=SUBJECT), "nothing of the kind")
    with pytest.raises(ProviderSetupError, match=r"TOCSIN_WEBPUSH__PRIVATE_KEY_FILE=.*key\.pem"):
        read_private_key_file(tmp_path / "key.pem")
    (tmp_path / "key.pem").write_bytes(b"\xff\xfe")
    with pytest.raises(ProviderSetupError, match="it is not text"):
        read_private_key_file(tmp_path / "key.pem")
    (tmp_path / "key.pem").write_text(PEM)
    assert read_private_key_file(tmp_path / "key.pem") == PEM


def test_the_table_of_answers_is_documented() -> None:
    page = Path(__file__).parents[2] / "docs" / "reference" / "webpush.md"
    rows = re.findall(r"^\| (\d{3}) \| `(\w+)` \| `(\w+)` \|", page.read_text("utf-8"), re.MULTILINE)

    assert rows == [(str(rule.status), rule.code, rule.outcome) for rule in RULES]
