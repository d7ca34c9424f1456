import base64
import re
import runpy
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks import Webhook, WebhookVerificationError

from tests.providers.conformance import NOW, Http2Conformance, ProviderConformance, Rig, a_message
from tests.providers.rig import HOSTILE_HOSTS, HOSTILE_TEXTS
from tocsin.domain.delivery.message import ManyHosts, Message
from tocsin.domain.delivery.outcome import Gone, Outcome, Rejected, Retry, Sent
from tocsin.providers.webhook.provider import WebhookProvider
from tocsin.providers.webhook.render import render
from tocsin.providers.webhook.settings import WebhookSettings
from tocsin.providers.webhook.signing import PREVIOUS_KEY_LIVES, new_secret, rotated, signatures
from tocsin.sandbox import Refuse, Sandbox
from tocsin.sandbox.phones import Received

GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "webhooks.md"
SECRET = new_secret()


class WebhookRig(Rig):
    service = "webhook"
    busy = Refuse("HTTP_503", retry_after=7)
    quota = None
    gone = Refuse("HTTP_410")
    rejected = Refuse("HTTP_413")

    def target(self, name: str) -> str:
        return self.target_at(name, self.sandbox.https_url)

    def target_at(self, name: str, base_url: str) -> str:
        return f"{base_url}/webhook/{name}"

    def hostile_targets(self) -> list[str]:
        return [*HOSTILE_TEXTS, *(f"https://{host}/x" for host in HOSTILE_HOSTS), "https://a.com\ud800/x"]

    def key(self, name: str) -> str:
        return name

    def message_to(self, target: str, **changes: Any) -> Message:
        return a_message(target, **{"secret": SECRET, "payload": {"customer": "Ali"}} | changes)

    def title_of(self, received: Received) -> str:
        title: str = received.message["event"]["data"]["title"]
        return title

    def build(
        self,
        *,
        base_url: str | None = None,  # noqa: ARG002 - each target says where it lives
        timeout_seconds: float = 5.0,
        concurrency: int = 20,
        **settings: Any,
    ) -> WebhookProvider:
        given: dict[str, Any] = {
            "enabled": True,
            "timeout": timeout_seconds,
            "max_concurrency": concurrency,
            "ca_file": self.sandbox.ca_file,
            "allow_private_addresses": True,
        }
        return WebhookProvider(WebhookSettings(**given | settings))


@pytest.fixture(scope="module")
async def running() -> AsyncIterator[Sandbox]:
    async with Sandbox() as sandbox:
        yield sandbox


@pytest.fixture
async def rig(running: Sandbox) -> AsyncIterator[WebhookRig]:
    running.reset()
    made = WebhookRig(running)
    yield made
    await made.aclose()


class TestConformance(ProviderConformance, Http2Conformance):
    pass


async def send(rig: WebhookRig, *, now: datetime = NOW, settings: Any = None, **changes: Any) -> Outcome:
    provider = rig.provider(**settings or {})
    (outcome,) = await provider.send([rig.message("shop", **changes)], now=now)
    return outcome


def verified(rig: WebhookRig, secret: str) -> Any:
    (arrived,) = rig.arrivals
    return Webhook(secret).verify(arrived.message["body"], arrived.message["headers"])


async def test_the_official_library_verifies_what_arrives(rig: WebhookRig) -> None:
    message = rig.message("shop", payload={"customer": "Ali", "amounts": [1, 2.5], "vip": None})

    await rig.provider().send([message], now=datetime.now(UTC))

    event = verified(rig, SECRET)
    assert event["type"] == "new_customer"
    assert event["data"] == {
        "notification_id": str(message.notification_id),
        "delivery_id": str(message.delivery_id),
        "type": "new_customer",
        "payload": {"customer": "Ali", "amounts": [1, 2.5], "vip": None},
        "title": "New customer",
        "body": "Ali Veli",
    }
    (arrived,) = rig.arrivals
    assert arrived.message["headers"]["webhook-id"] == str(message.delivery_id)


async def test_what_the_guide_gives_to_verify_with_does_it(rig: WebhookRig, tmp_path: Path) -> None:
    (code,) = re.findall(r"```python\n([^`]*def is_genuine[^`]*)```", GUIDE.read_text("utf-8"))
    snippet = tmp_path / "snippet.py"
    snippet.write_text(code)
    is_genuine = runpy.run_path(str(snippet))["is_genuine"]
    new_key = new_secret()

    await send(rig, secret=rotated(SECRET, new_key, NOW))

    (arrived,) = rig.arrivals
    body, headers = arrived.message["body"].encode(), arrived.message["headers"]
    assert is_genuine(body, headers, SECRET)
    assert is_genuine(body, headers, new_key)
    assert not is_genuine(body, headers, new_secret())
    assert not is_genuine(body + b" ", headers, SECRET)


async def test_another_secret_does_not_verify(rig: WebhookRig) -> None:
    await send(rig, now=datetime.now(UTC))

    with pytest.raises(WebhookVerificationError):
        verified(rig, new_secret())


async def test_what_was_changed_on_the_way_does_not_verify(rig: WebhookRig) -> None:
    await send(rig, now=datetime.now(UTC))
    (arrived,) = rig.arrivals

    with pytest.raises(WebhookVerificationError):
        Webhook(SECRET).verify(arrived.message["body"].replace("Ali", "Eve"), arrived.message["headers"])


async def test_both_keys_verify_for_a_day_after_a_rotation(rig: WebhookRig) -> None:
    now, new_key = datetime.now(UTC), new_secret()

    await send(rig, now=now, secret=rotated(SECRET, new_key, now))

    assert verified(rig, SECRET) == verified(rig, new_key)


def test_the_previous_key_ends_after_a_day() -> None:
    new_key = new_secret()
    secret = rotated(SECRET, new_key, NOW)

    just_before = signatures(secret, "id", b"{}", NOW + PREVIOUS_KEY_LIVES - timedelta(seconds=1))
    after = signatures(secret, "id", b"{}", NOW + PREVIOUS_KEY_LIVES)

    assert len(just_before.split(" ")) == 2
    assert after == signatures(new_key, "id", b"{}", NOW + PREVIOUS_KEY_LIVES)


def test_a_second_rotation_ends_the_first_key_at_once() -> None:
    second, third = new_secret(), new_secret()
    secret = rotated(rotated(SECRET, second, NOW), third, NOW)

    signed = signatures(secret, "id", b"{}", NOW).split(" ")

    assert signed == [signatures(key, "id", b"{}", NOW) for key in (third, second)]


def test_a_secret_that_was_lost_is_replaced_by_a_rotation() -> None:
    assert rotated("", SECRET, NOW) == SECRET


@given(st.binary(min_size=24, max_size=64), st.text(st.characters(codec="utf-8"), max_size=200))
def test_the_official_library_signs_alike(key: bytes, body: str) -> None:
    secret = f"whsec_{base64.b64encode(key).decode()}"

    ours = signatures(secret, "d1", body.encode(), NOW)

    assert ours == Webhook(secret).sign("d1", NOW, body)


@pytest.mark.parametrize(
    "secret", [None, "", "whsec_", "whsec_c2hvcnQ=", "c2VjcmV0" * 8, "whsec_" + "!" * 44, "whsec_a@b"]
)
async def test_nothing_leaves_without_a_signature(rig: WebhookRig, secret: str | None) -> None:
    outcome = await send(rig, secret=secret)

    assert isinstance(outcome, Rejected)
    assert outcome.code == "secret_unusable"
    assert rig.stats.requests == 0


def test_every_attempt_writes_the_same_body() -> None:
    message = a_message("https://example.com/hook", secret=SECRET)

    assert render(message, NOW) == render(message, NOW + timedelta(hours=3))


def test_the_event_has_the_time_at_which_the_notification_was_accepted() -> None:
    before = datetime.now(UTC)
    body = render(a_message("https://example.com/hook"), NOW)

    assert isinstance(body, bytes)
    accepted = datetime.fromisoformat(msgspec.json.decode(body)["timestamp"])
    assert before - timedelta(seconds=1) <= accepted <= datetime.now(UTC) + timedelta(seconds=1)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_not_followed(rig: WebhookRig, status: int) -> None:
    rig.script("shop", Refuse(f"HTTP_{status}"))

    outcome = await send(rig)

    assert isinstance(outcome, Retry)
    assert (outcome.code, outcome.speaks_against) == ("redirected", "target")
    assert rig.stats.requests == 1
    assert rig.arrivals == []


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (Refuse("HTTP_410"), Gone("endpoint_gone", "the endpoint answered 410")),
        (
            Refuse("HTTP_404"),
            Retry("endpoint_refused", "the endpoint answered 404", speaks_against="target"),
        ),
        (
            Refuse("HTTP_429", retry_after=30),
            Retry(
                "too_many_requests",
                "the endpoint answered 429",
                timedelta(seconds=30),
                speaks_against="target",
            ),
        ),
        (Refuse("HTTP_500"), Retry("endpoint_failed", "the endpoint answered 500")),
        (
            Refuse("HTTP_500", retry_after=30),
            Retry(
                "endpoint_failed",
                "the endpoint answered 500",
                timedelta(seconds=30),
                speaks_against="target",
            ),
        ),
    ],
)
async def test_an_answer_is_understood(rig: WebhookRig, fault: Refuse, expected: Outcome) -> None:
    rig.script("shop", fault)

    assert await send(rig) == expected


@pytest.mark.parametrize(
    "url",
    [
        "https://127.0.0.1/hook",
        "https://10.0.0.8/hook",
        "https://[::1]/hook",
        "https://169.254.169.254/latest/meta-data",
        "https://localhost/hook",
        "https://0x7f000001/hook",
        "http://example.com/hook",
        "https://ada:pw@example.com/hook",
        "ftp://example.com",
        "hook",
        "",
    ],
)
async def test_an_address_that_must_not_be_called_is_refused(rig: WebhookRig, url: str) -> None:
    provider = rig.provider(allow_private_addresses=False)

    (outcome,) = await provider.send([rig.message_to(url)], now=NOW)

    assert isinstance(outcome, Rejected)
    assert outcome.code == "address_refused"


async def test_a_private_address_is_called_where_that_is_allowed(rig: WebhookRig) -> None:
    assert isinstance(await send(rig), Sent)
    assert isinstance(await send(rig, settings={"allow_private_addresses": False}), Rejected)


@pytest.mark.parametrize(
    ("addresses", "expected"),
    [
        (
            ["93.184.216.34", "10.0.0.8"],
            Retry(
                "address_refused",
                "the endpoint's URL resolves to a private or reserved address",
                speaks_against="target",
            ),
        ),
        ([], Retry("network_error", "the host's name resolves to no address")),
    ],
)
async def test_a_name_is_judged_by_what_it_stands_for(
    rig: WebhookRig, addresses: list[str], expected: Retry
) -> None:
    async def lookup(_: str) -> list[str]:
        return addresses

    provider = rig.build(allow_private_addresses=False)
    provider._guard._lookup = lookup

    (outcome,) = await provider.send([rig.message_to("https://hooks.example.com/a")], now=NOW)

    assert outcome == expected


def test_each_host_can_be_told_apart(rig: WebhookRig) -> None:
    provider = rig.build()

    assert isinstance(provider, ManyHosts)
    assert provider.host_of("https://Hooks.Example.com:8443/a/b?c=d") == "hooks.example.com"
    assert provider.host_of("nothing of the kind") == ""


async def test_a_secret_shows_up_nowhere(rig: WebhookRig) -> None:
    rig.script("shop", Refuse("HTTP_500"), Refuse("HTTP_401"))
    provider = rig.provider()
    message = rig.message("shop")

    outcomes = [(await provider.send([message], now=NOW))[0] for _ in range(3)]

    told = repr(outcomes) + repr(message) + repr(provider) + repr(vars(provider))
    assert SECRET not in told
    assert SECRET.removeprefix("whsec_") not in told


async def test_the_name_of_the_sender_is_a_setting(rig: WebhookRig) -> None:
    assert isinstance(await send(rig, settings={"user_agent": "Example-Shop/2.0"}), Sent)

    (arrived,) = rig.arrivals
    assert arrived.message["headers"]["user-agent"] == "Example-Shop/2.0"
    assert arrived.message["headers"]["content-type"] == "application/json"


@pytest.mark.parametrize("agent", ["", " ", "a\nb", "größer"])
def test_a_name_that_no_header_can_hold_is_a_fault(agent: str) -> None:
    (fault,) = WebhookSettings(user_agent=agent).faults()

    assert (fault.field, fault.code) == ("webhook.user_agent", "invalid")


def test_certificates_that_are_not_there_are_a_fault(tmp_path: Path) -> None:
    missing = tmp_path / "ca.pem"

    (fault,) = WebhookSettings(ca_file=missing).faults()
    missing.touch()

    assert (fault.field, fault.message) == ("webhook.ca_file", f"{missing} is not a file")
    assert list(WebhookSettings(ca_file=missing).faults()) == []


def test_the_settings_as_they_come_have_no_fault() -> None:
    assert list(WebhookSettings().faults()) == []
