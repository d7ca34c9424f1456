"""Tokens and settings of devices that cannot be right are told why."""

import json
from base64 import urlsafe_b64encode
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.domain.people.device_tokens import TokenKind, registration_faults
from tocsin.domain.people.devices import DeviceSettings, device_settings_faults
from tocsin.providers.registry import device_rules, load_registry

RULES = device_rules(load_registry())


def faults(provider: str, token: str, kind: TokenKind = "token") -> dict[str, str]:
    return {fault.field: fault.message for fault in registration_faults(RULES, provider, token, kind)}


def token_fault(provider: str, token: str) -> str | None:
    return faults(provider, token).get("token")


def base64url(content: bytes) -> str:
    return urlsafe_b64encode(content).decode().rstrip("=")


POINT = base64url(b"\x04" + bytes(range(64)))
AUTH = base64url(bytes(range(16)))
SUBSCRIPTION = {
    "endpoint": "https://push.example.com/send/abc",
    "expirationTime": None,
    "keys": {"p256dh": POINT, "auth": AUTH},
}


def subscription(**changes: Any) -> str:
    return json.dumps(SUBSCRIPTION | changes)


@pytest.mark.parametrize(
    "token", ["ExponentPushToken[xxxxxxxxxxxxxxxxxxxxxx]", "ExpoPushToken[a-b_c]", "ExponentPushToken[a:b]"]
)
def test_an_expo_token_is_known_by_its_form(token: str) -> None:
    assert token_fault("expo", token) is None


@pytest.mark.parametrize(
    "token",
    [
        "cQx:APA91b",
        "ExponentPushToken[]",
        "ExponentPushToken[a",
        "ExponentPushToken[a]b",
        "ExponentPushToken[a b]",
        "xExpoPushToken[a]",
        "expopushtoken[a]",
    ],
)
def test_another_token_is_none_of_expo(token: str) -> None:
    fault = token_fault("expo", token)

    assert fault
    assert token not in fault


@pytest.mark.parametrize(
    "token",
    [
        subscription(),
        subscription(keys={"p256dh": POINT + "=", "auth": AUTH + "=="}),
        subscription(endpoint="https://127.0.0.1:8443/push/1"),
    ],
)
def test_a_subscription_as_browsers_write_it_is_good(token: str) -> None:
    assert token_fault("webpush", token) is None


@pytest.mark.parametrize(
    ("token", "said"),
    [
        ("https://push.example.com/send/abc", "as JSON"),
        ("[]", "as JSON"),
        ("null", "as JSON"),
        ("[" * 4_000, "as JSON"),
        ("{}", "as JSON"),
        (subscription(keys=None), "as JSON"),
        (subscription(keys={"p256dh": POINT}), "as JSON"),
        (subscription(endpoint=7), "as JSON"),
        ('{"endpoint": "\ud800"}', "as JSON"),
        (subscription(endpoint="http://push.example.com/send"), "https"),
        (subscription(endpoint="https://"), "endpoint"),
        (subscription(endpoint="https://[/"), "endpoint"),
        (subscription(endpoint="/send"), "endpoint"),
        (subscription(keys={"p256dh": POINT[:-2], "auth": AUTH}), "keys.p256dh"),
        (subscription(keys={"p256dh": "A" + POINT[1:-1] + "?", "auth": AUTH}), "keys.p256dh"),
        (subscription(keys={"p256dh": base64url(bytes(65)), "auth": AUTH}), "keys.p256dh"),
        (subscription(keys={"p256dh": "é", "auth": AUTH}), "keys.p256dh"),
        (subscription(keys={"p256dh": POINT, "auth": AUTH[:-1]}), "keys.auth"),
        (subscription(keys={"p256dh": POINT, "auth": ""}), "keys.auth"),
    ],
    ids=lambda value: value[:40].encode("ascii", "replace").decode(),
)
def test_a_subscription_that_cannot_be_sent_to_is_told_why(token: str, said: str) -> None:
    assert said in (token_fault("webpush", token) or "")


@given(st.text())
def test_whatever_a_subscription_is_it_gets_an_answer_that_does_not_quote_it(token: str) -> None:
    fault = token_fault("webpush", token)

    assert fault
    assert len(token) < 12 or token not in fault


@pytest.mark.parametrize(
    "token", ["00fc13adff785122b4ad28809a3420982341241421348097878e577c991de8f0", "ab" * 100]
)
def test_a_token_of_apple_has_any_length(token: str) -> None:
    assert token_fault("apns", token) is None


@pytest.mark.parametrize("token", ["<00fc13ad ff785122>", "../x", "a/b", "a?b", "AAECAw==", "%2e"])
def test_a_token_of_apple_fits_into_a_path(token: str) -> None:
    assert "hexadecimal" in (token_fault("apns", token) or "")


@pytest.mark.parametrize("provider", ["fcm", "sns"])
def test_the_tokens_of_others_are_their_own_affair(provider: str) -> None:
    assert token_fault(provider, "anything") is None


def test_only_fcm_knows_an_installation_by_its_id() -> None:
    expo = "ExponentPushToken[a]"

    assert faults("fcm", "anything", "fid") == {}
    assert faults("expo", expo, "token") == {}
    assert faults("expo", expo, "fid") == {"token_kind": "expo takes no fid; fcm does"}


@pytest.mark.parametrize(
    ("given_days", "fields"),
    [
        ({}, []),
        ({"stale_after_days": 0}, []),
        ({"retire_after_days": 0}, []),
        ({"stale_after_days": 0, "retire_after_days": 0}, []),
        ({"stale_after_days": 0, "retire_after_days": 1}, []),
        ({"stale_after_days": 30, "retire_after_days": 31}, []),
        ({"stale_after_days": 30, "retire_after_days": 30}, ["devices.retire_after_days"]),
        ({"stale_after_days": 300}, ["devices.retire_after_days"]),
        ({"stale_after_days": -1}, ["devices.stale_after_days"]),
        ({"retire_after_days": -1}, ["devices.retire_after_days"]),
        ({"retire_after_days": 10**9}, ["devices.retire_after_days"]),
    ],
)
def test_a_device_is_marked_before_it_is_retired(given_days: dict[str, Any], fields: list[str]) -> None:
    assert [fault.field for fault in device_settings_faults(DeviceSettings(**given_days))] == fields
