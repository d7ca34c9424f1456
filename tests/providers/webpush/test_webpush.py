import asyncio
import json
import logging
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import http_ece  # type: ignore[import-untyped]
import msgspec
import pytest

from tests.providers.conformance import (
    NOW,
    CannedAnswer,
    Http2Conformance,
    ProviderConformance,
    Rig,
    a_message,
    send_one,
    send_to,
)
from tests.providers.http.http2_peer import Http2Peer
from tests.providers.rig import HOSTILE_HOSTS, HOSTILE_TEXTS
from tests.providers.webpush.subscriptions import AUTH, BROWSER, subscription
from tocsin.domain.delivery.message import PushAppearance
from tocsin.domain.delivery.outcome import Defer, Gone, Outcome, Rejected, Retry, Sent
from tocsin.domain.people.push_subscription import read_subscription
from tocsin.providers.answers import ALARM_REST
from tocsin.providers.webpush.answers import QUOTA_REST
from tocsin.providers.webpush.crypto import new_private_key_pem, public_key_of
from tocsin.providers.webpush.provider import WebPushProvider
from tocsin.providers.webpush.render import render
from tocsin.providers.webpush.settings import WebPushSettings
from tocsin.sandbox import Outage, Quota, Refuse, Sandbox, SandboxSettings
from tocsin.sandbox.phones import Received

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
        self.stand_in = sandbox.webpush

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

    def hostile_targets(self) -> list[str]:
        endpoints = [*HOSTILE_TEXTS, *(f"https://{host}/x" for host in HOSTILE_HOSTS)]
        valid: dict[str, Any] = json.loads(self.target("hostile"))
        return [*HOSTILE_TEXTS, *(json.dumps(valid | {"endpoint": endpoint}) for endpoint in endpoints)]

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
                pauses=False,
                alarm=True,
            ),
        ),
        (
            "FORBIDDEN",
            Defer(
                "forbidden",
                ALARM_REST,
                "The signature of the authorization header is not valid.",
                pauses=False,
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


async def test_a_browser_that_left_is_gone_and_the_others_get_theirs(rig: WebPushRig) -> None:
    batch = [rig.message(name) for name in ("one", "two", "three")]
    rig.sandbox.phones.unregister("two")

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
    appearance = PushAppearance(
        icon="https://example.com/i.png",
        image="https://example.com/p.png",
        badge=3,
        deep_link="https://example.com/orders/7",
        route="/orders/7",
        severity="critical",
    )
    message = rig.message("browser", appearance=appearance, locale="tr-TR", collapse_key="order-7")

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
    # Salt and key of the sender are those of one message, also to a browser that is remembered.
    assert len({body[:16] for body in bodies}) == len({body[21:86] for body in bodies}) == 3


async def test_what_just_fits_is_sent_and_a_byte_more_is_not(rig: WebPushRig) -> None:
    empty = render(rig.message("browser", body=""))
    assert isinstance(empty, bytes)
    room = WebPushProvider.limits.payload_bytes - len(empty)
    provider = rig.provider()

    assert isinstance(await send_to(rig, provider, "browser", body="x" * room), Sent)
    outcome = await send_to(rig, provider, "browser", body="x" * (room + 1))

    assert outcome == Rejected("payload_too_large", "3994 bytes; a browser takes 3993")
    assert rig.stats.requests == 1


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

    assert outcome == Retry("address_refused", "the push service resolves to a private or reserved address")
    assert rig.stats.requests == 0


async def test_a_name_without_an_address_is_a_retry(rig: WebPushRig, monkeypatch: pytest.MonkeyPatch) -> None:
    async def lookup(_: str) -> list[str]:
        raise OSError

    provider = rig.provider()
    assert isinstance(provider, WebPushProvider)
    monkeypatch.setattr(provider._guard, "_lookup", lookup)

    outcome = await send_to(rig, provider, "browser", at="https://push.example.com")

    assert outcome == Retry("network_error", "the host's name resolves to no address")


async def test_a_signature_is_made_once_for_many_and_anew_after_a_refusal(rig: WebPushRig) -> None:
    provider = rig.provider()
    assert isinstance(provider, WebPushProvider)
    await asyncio.gather(*(send_to(rig, provider, f"browser{number}") for number in range(10)))
    [vapid] = provider._vapid.candidates(None)
    (shown,) = vapid._headers.values()
    rig.script("browser", Refuse("FORBIDDEN"))
    await send_to(rig, provider, "browser")
    assert not vapid._headers

    assert isinstance(await send_to(rig, provider, "browser"), Sent)
    assert shown not in vapid._headers.values()


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
    assert "abcdefgh" not in repr(read_subscription(subscription()))


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
