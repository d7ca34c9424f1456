import asyncio
import itertools
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.providers.conformance import (
    NOW,
    UNREACHABLE,
    OneOriginConformance,
    ProviderConformance,
    a_message,
    send_one,
)
from tests.providers.fcm.rig import FcmRig
from tocsin.domain.delivery.outcome import Defer, Gone, Outcome, Rejected, Retry, Sent
from tocsin.domain.errors import ProviderSetupError
from tocsin.providers.answers import ALARM_REST
from tocsin.providers.fcm import google_auth
from tocsin.providers.fcm.provider import FcmProvider
from tocsin.providers.fcm.render import render
from tocsin.providers.fcm.settings import FcmSettings
from tocsin.sandbox import Outage, Quota, Refuse, Sandbox, SandboxSettings

MINUTE = timedelta(minutes=1)


@contextmanager
def edited(path: Path, **changes: Any) -> Iterator[Path]:
    """Give a copy of a service account file with some fields changed."""
    account = msgspec.json.decode(path.read_bytes()) | changes
    copy = path.with_name("edited.json")
    copy.write_bytes(msgspec.json.encode(account))
    yield copy


class TestConformance(ProviderConformance, OneOriginConformance):
    pass


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("INVALID_ARGUMENT", Rejected("INVALID_ARGUMENT", "Invalid value at 'message.data'.")),
        (
            "INVALID_TOKEN",
            Gone("INVALID_ARGUMENT", "The registration token is not a valid FCM registration token"),
        ),
        (
            "THIRD_PARTY_AUTH_ERROR",
            Defer(
                "THIRD_PARTY_AUTH_ERROR",
                ALARM_REST,
                "Auth error from APNS or Web Push Service",
                pauses=False,
                alarm=True,
            ),
        ),
        ("SENDER_ID_MISMATCH", Rejected("SENDER_ID_MISMATCH", "SenderId mismatch", quarantine=True)),
        ("UNREGISTERED", Gone("UNREGISTERED", "Requested entity was not found.")),
        ("INTERNAL", Retry("INTERNAL", "Internal error encountered.")),
        ("UNAVAILABLE", Retry("UNAVAILABLE", "The service is currently unavailable.")),
        ("UNKNOWN", Retry("UNKNOWN", "Unknown error.")),
        (
            "DEADLINE_EXCEEDED",
            Retry("DEADLINE_EXCEEDED", "Deadline expired before operation could complete."),
        ),
    ],
)
async def test_each_error_of_fcm_is_understood(rig: FcmRig, code: str, expected: Outcome) -> None:
    rig.sandbox.faults.script("phone", Refuse(code))

    assert await send_one(rig.provider(), "phone") == expected


@pytest.mark.parametrize(
    ("code", "pauses"),
    [
        ("QUOTA_EXCEEDED", True),
        ("DEVICE_QUOTA_EXCEEDED", False),
        ("RATE_LIMIT_EXCEEDED", True),
        ("RESOURCE_EXHAUSTED", True),
    ],
)
@pytest.mark.parametrize(("asked", "after"), [(None, MINUTE), (5, MINUTE), (300, 5 * MINUTE)])
async def test_a_quota_defers_by_a_minute_or_more(
    rig: FcmRig, code: str, asked: int | None, after: timedelta, *, pauses: bool
) -> None:
    rig.sandbox.faults.script("phone", Refuse(code, retry_after=asked))

    outcome = await send_one(rig.provider(), "phone")

    assert isinstance(outcome, Defer)
    assert (outcome.after, outcome.pauses, outcome.alarm) == (after, pauses, False)


async def test_the_quota_of_one_device_slows_that_device_alone(rig: FcmRig) -> None:
    rig.sandbox.faults.device_quota(Quota(1))
    provider = rig.provider()

    outcomes = [await send_one(provider, target) for target in ("a", "a", "b")]

    assert [type(outcome) for outcome in outcomes] == [Sent, Defer, Sent]


@pytest.mark.parametrize("code", ["PERMISSION_DENIED", "NOT_FOUND"])
async def test_a_project_that_may_not_send_pauses_and_alarms(rig: FcmRig, code: str) -> None:
    rig.sandbox.faults.script("phone", Refuse(code))

    outcome = await send_one(rig.provider(), "phone")

    assert isinstance(outcome, Defer)
    assert (outcome.code, outcome.after, outcome.pauses, outcome.alarm) == (code, ALARM_REST, True, True)


async def test_a_wrong_project_retires_no_device(rig: FcmRig) -> None:
    outcome = await send_one(rig.provider(project_id="other"), "phone")

    assert isinstance(outcome, Defer)
    assert outcome.alarm


async def test_a_wrong_address_costs_no_delivery(rig: FcmRig) -> None:
    outcome = await send_one(rig.provider(base_url=f"{rig.sandbox.https_url}/nowhere"), "phone")

    assert isinstance(outcome, Defer)
    assert (outcome.code, outcome.alarm) == ("HTTP_404", True)


async def test_messages_go_over_http_2(rig: FcmRig) -> None:
    provider = rig.provider()
    for number in range(3):
        await send_one(provider, f"phone{number}")

    assert rig.sandbox.stats().protocols == {"2": 3}


async def test_a_withdrawn_access_token_is_renewed_once_and_the_message_sent(rig: FcmRig) -> None:
    provider = rig.provider()
    await send_one(provider, "phone")
    rig.sandbox.fcm.tokens.revoke_all()

    outcomes = await asyncio.gather(*(send_one(provider, f"phone{number}") for number in range(10)))

    assert all(isinstance(outcome, Sent) for outcome in outcomes)
    stats = rig.sandbox.stats()
    assert stats.access_tokens_issued == 2
    assert stats.answers == {"OK": 11, "UNAUTHENTICATED": 10}


async def test_lasting_refusal_of_the_access_token_defers_and_alarms(rig: FcmRig) -> None:
    rig.sandbox.faults.script("phone", Refuse("UNAUTHENTICATED"), repeat=True)
    provider = rig.provider()
    await provider.prepare()

    outcome = await send_one(provider, "phone")

    assert isinstance(outcome, Defer)
    assert (outcome.code, outcome.pauses, outcome.alarm) == ("UNAUTHENTICATED", True, True)
    assert rig.sandbox.stats().requests == 2


async def test_one_access_token_serves_all(rig: FcmRig) -> None:
    provider = rig.provider()

    await asyncio.gather(*(send_one(provider, f"phone{number}") for number in range(20)))

    assert rig.sandbox.stats().access_tokens_issued == 1


async def test_a_short_lived_access_token_is_used_for_half_its_life(tmp_path: Path) -> None:
    settings = SandboxSettings(folder=tmp_path, access_token_seconds=60)
    async with Sandbox(settings) as sandbox:
        rig = FcmRig(sandbox, tmp_path)
        provider = rig.provider()
        for _ in range(5):
            assert isinstance(await send_one(provider, "phone"), Sent)
        await rig.aclose()

        assert sandbox.stats().access_tokens_issued == 1


async def test_an_access_token_is_renewed_before_it_ends(tmp_path: Path) -> None:
    async with Sandbox(SandboxSettings(folder=tmp_path, access_token_seconds=1)) as sandbox:
        rig = FcmRig(sandbox, tmp_path)
        provider = rig.provider()
        async with asyncio.timeout(10):
            while sandbox.stats().access_tokens_issued < 3:
                assert isinstance(await send_one(provider, "phone"), Sent)
                await asyncio.sleep(0.02)
        await rig.aclose()

        assert set(sandbox.stats().answers) == {"OK"}


async def test_an_outage_of_the_token_endpoint_is_shared_by_all_who_wait(rig: FcmRig) -> None:
    rig.sandbox.faults.outage(Outage(covers="tokens"))
    provider = rig.provider(concurrency=30)

    async with asyncio.timeout(15):
        outcomes = await asyncio.gather(*(send_one(provider, f"phone{number}") for number in range(30)))

    assert {type(outcome) for outcome in outcomes} == {Retry}
    rig.sandbox.faults.outage(None)
    assert isinstance(await send_one(provider, "phone"), Sent)


async def test_a_token_endpoint_out_of_reach_is_a_retry(rig: FcmRig) -> None:
    with edited(rig.credentials_file, token_uri=f"{UNREACHABLE}/token") as path:
        outcome = await send_one(rig.provider(credentials_file=path), "phone")

    assert isinstance(outcome, Retry)
    assert outcome.code == "token_unavailable"


async def test_a_token_endpoint_that_is_something_else_is_a_retry(rig: FcmRig) -> None:
    with edited(rig.credentials_file, token_uri=f"{rig.sandbox.http_url}/sandbox/reset") as path:
        outcome = await send_one(rig.provider(credentials_file=path), "phone")

    assert isinstance(outcome, Retry | Defer)


@pytest.mark.parametrize(
    "lifetime", ["", ', "expires_in": 1e20', ', "expires_in": "soon"', ', "expires_in": -1e12']
)
async def test_an_access_token_without_an_end_in_sight_is_a_retry(
    rig: FcmRig, monkeypatch: pytest.MonkeyPatch, lifetime: str
) -> None:
    answer = google_auth._Answer(200, {}, f'{{"access_token": "t"{lifetime}}}'.encode())
    monkeypatch.setattr(google_auth._Transport, "__call__", lambda *_, **__: answer)
    outcome = await send_one(rig.provider(), "phone")

    assert isinstance(outcome, Retry)
    assert outcome.code == "token_unavailable"


async def test_a_refused_service_account_defers_and_alarms(rig: FcmRig) -> None:
    with edited(rig.credentials_file, client_email="stranger@example.com") as path:
        outcome = await send_one(rig.provider(credentials_file=path), "phone")

    assert isinstance(outcome, Defer)
    assert (outcome.code, outcome.pauses, outcome.alarm) == ("credentials_refused", True, True)
    assert "account not found" in outcome.detail


@pytest.mark.parametrize("content", [b"", b"{", b"{}", b"[]", b'{"type": "authorized_user"}', b"\xff"])
def test_a_file_that_is_no_service_account_stops_the_start(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "account.json"
    path.write_bytes(content)

    with pytest.raises(ProviderSetupError, match="TOCSIN_FCM__CREDENTIALS_FILE"):
        FcmProvider(FcmSettings(credentials_file=path))


def test_a_key_that_is_none_stops_the_start_and_stays_secret(rig: FcmRig) -> None:
    with (
        edited(rig.credentials_file, private_key="pr1vate") as path,
        pytest.raises(ProviderSetupError) as caught,
    ):
        FcmProvider(FcmSettings(credentials_file=path))

    assert "pr1vate" not in str(caught.value)


def test_a_missing_file_stops_the_start(tmp_path: Path, rig: FcmRig) -> None:
    with pytest.raises(ProviderSetupError, match=r"missing\.json"):
        FcmProvider(FcmSettings(credentials_file=tmp_path / "missing.json"))
    with pytest.raises(ProviderSetupError, match="TOCSIN_FCM__CREDENTIALS_FILE"):
        FcmProvider(FcmSettings())
    with pytest.raises(ProviderSetupError, match=r"ca\.pem"):
        rig.provider(ca_file=tmp_path / "ca.pem")


def test_a_ca_file_without_certificates_stops_the_start(tmp_path: Path, rig: FcmRig) -> None:
    path = tmp_path / "ca.pem"
    path.write_text("nothing of the kind")

    with pytest.raises(ProviderSetupError, match="no certificate"):
        rig.provider(ca_file=path)


def test_a_project_must_be_known(rig: FcmRig) -> None:
    with (
        edited(rig.credentials_file, project_id=None) as path,
        pytest.raises(ProviderSetupError, match="TOCSIN_FCM__PROJECT_ID"),
    ):
        rig.provider(credentials_file=path)


async def test_an_untrusted_certificate_is_a_retry(rig: FcmRig) -> None:
    with edited(rig.credentials_file, token_uri=f"{rig.sandbox.http_url}/token") as path:
        outcome = await send_one(rig.provider(credentials_file=path, ca_file=None), "phone")

    assert isinstance(outcome, Retry)
    assert outcome.code == "network_error"


async def test_access_tokens_and_keys_show_up_nowhere(rig: FcmRig, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    account = rig.sandbox.service_account()
    provider = rig.provider()
    rig.sandbox.faults.script("phone", Refuse("UNAUTHENTICATED"), repeat=True)

    outcome = await send_one(provider, "phone")

    told = repr(outcome) + repr(provider) + repr(vars(provider)) + caplog.text
    assert "ya29." not in told
    assert account.private_key[100:140] not in told


def test_a_message_is_written_as_fcm_wants_it() -> None:
    message = a_message("phone", collapse_key="order-7")
    body = render(message, NOW)

    assert isinstance(body, bytes)
    assert msgspec.json.decode(body) == {
        "message": {
            "token": "phone",
            "notification": {"title": "New customer", "body": "Ali Veli"},
            "data": {"type": "new_customer", "delivery_id": str(message.delivery_id)},
            "android": {
                "priority": "HIGH",
                "ttl": "3600s",
                "collapse_key": "order-7",
                "notification": {"tag": "order-7"},
            },
            "apns": {"headers": {"apns-collapse-id": "order-7", "apns-expiration": "1772370000"}},
        }
    }


@pytest.mark.parametrize(
    ("left", "ttl"),
    [(timedelta(seconds=-5), "0s"), (timedelta(seconds=1.9), "1s"), (timedelta(days=400), "2419200s")],
)
def test_the_time_to_live_stays_within_what_fcm_takes(left: timedelta, ttl: str) -> None:
    body = render(a_message("phone", expires_at=NOW + left), NOW)

    assert isinstance(body, bytes)
    assert msgspec.json.decode(body)["message"]["android"]["ttl"] == ttl


def test_each_message_has_its_own_lifetime_whichever_came_before() -> None:
    written, hour = [], timedelta(hours=1)
    for expires_at, now in itertools.product((NOW + hour, NOW + 2 * hour), (NOW, NOW + hour / 2)):
        # The same twice, as those that were accepted together.
        for _ in range(2):
            body = render(a_message("phone", expires_at=expires_at), now)
            assert isinstance(body, bytes)
            message = msgspec.json.decode(body)["message"]
            written.append((message["android"]["ttl"], message["apns"]["headers"]["apns-expiration"]))

    at = NOW.timestamp()
    assert written[::2] == written[1::2]
    assert written[::2] == [
        ("3600s", f"{at + 3600:.0f}"),
        ("1800s", f"{at + 3600:.0f}"),
        ("7200s", f"{at + 7200:.0f}"),
        ("5400s", f"{at + 7200:.0f}"),
    ]


def test_without_an_end_fcm_keeps_its_own_default() -> None:
    message = a_message("phone", expires_at=None)
    body = render(message, NOW)

    assert isinstance(body, bytes)
    written = msgspec.json.decode(body)["message"]
    assert "ttl" not in written["android"]
    assert written["apns"]["headers"] == {"apns-collapse-id": str(message.delivery_id)}
    assert written["android"]["notification"]["tag"] == str(message.delivery_id)


async def test_what_just_fits_is_sent(rig: FcmRig) -> None:
    room = FcmProvider.limits.payload_bytes - 300

    assert isinstance(await send_one(rig.provider(), "phone", body="x" * room), Sent)
