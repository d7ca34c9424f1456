"""The official SDK, unchanged but for its address, is the judge of the stand-in's truth."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import firebase_admin
import pytest
from firebase_admin import _http_client as http_client
from firebase_admin import credentials, exceptions, messaging

from tocsin.sandbox import Hang, Pass, Refuse, Sandbox

PROJECT = "shop-1"
TRIES = 5
"""How often the SDK tries when told 500 or 503."""


@pytest.fixture(scope="module")
async def running() -> AsyncIterator[Sandbox]:
    async with Sandbox() as sandbox:
        yield sandbox


@pytest.fixture
def sandbox(running: Sandbox) -> Sandbox:
    running.reset()
    return running


class Sdk:
    """Makes apps of the SDK that speak to the sandbox."""

    def __init__(self, key_file: Path) -> None:
        self._key_file = key_file
        self._names = itertools.count()
        self._apps: list[firebase_admin.App] = []

    def app(self, timeout_seconds: float = 10.0) -> firebase_admin.App:
        app = firebase_admin.initialize_app(
            credentials.Certificate(str(self._key_file)),
            {"httpTimeout": timeout_seconds},
            name=f"sdk-{next(self._names)}",
        )
        self._apps.append(app)
        return app

    async def send(self, message: messaging.Message, **options: Any) -> Any:
        return await asyncio.to_thread(messaging.send, message, app=self.app(), **options)

    async def send_each_async(
        self, messages: list[messaging.Message], *, timeout_seconds: float = 10.0, **options: Any
    ) -> Any:
        # The SDK fetches access tokens with a blocking call inside its loop, so it gets a loop of its own.
        app = self.app(timeout_seconds)

        async def run() -> Any:
            try:
                return await messaging.send_each_async(messages, app=app, **options)
            finally:
                await messaging._get_messaging_service(app)._async_client.aclose()

        return await asyncio.to_thread(asyncio.run, run())

    async def error_of(self, way: str, message: messaging.Message) -> exceptions.FirebaseError:
        """Send by one of the SDK's ways and return the error it made of the answer."""
        if way == "send":
            with pytest.raises(exceptions.FirebaseError) as caught:
                await self.send(message)
            return caught.value
        [response] = (await self.send_each_async([message])).responses
        return response.exception

    def close(self) -> None:
        for app in self._apps:
            messaging._get_messaging_service(app)._client.close()
            firebase_admin.delete_app(app)


@pytest.fixture(params=["https", "http"])
def sdk(
    sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[Sdk]:
    secure = request.param == "https"
    base_url = sandbox.https_url if secure else sandbox.http_url
    monkeypatch.setattr(messaging._MessagingService, "FCM_URL", base_url + "/v1/projects/{0}/messages:send")
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(sandbox.ca_file))
    monkeypatch.setenv("SSL_CERT_FILE", str(sandbox.ca_file))
    # The SDK's own pauses between tries are not what is tested here.
    monkeypatch.setattr(http_client.DEFAULT_RETRY_CONFIG, "backoff_factor", 0)
    monkeypatch.setattr(http_client.DEFAULT_HTTPX_RETRY_CONFIG, "backoff_factor", 0)
    key_file = sandbox.write_service_account(tmp_path / "account.json", PROJECT, secure=secure)
    sdk = Sdk(key_file)
    yield sdk
    sdk.close()


async def test_send_delivers(sandbox: Sandbox, sdk: Sdk) -> None:
    with pytest.warns(DeprecationWarning, match="fid"):
        message = messaging.Message(
            token="phone-1",
            data={"delivery_id": "d1"},
            notification=messaging.Notification(
                title="Hello", body="World", image="https://example.org/a.png"
            ),
        )

    name = await sdk.send(message)

    phone = sandbox.phones.find("phone-1")
    assert phone is not None
    [received] = phone.messages
    assert name == f"projects/{PROJECT}/messages/{received.message_id}"
    assert received.message["notification"]["title"] == "Hello"
    assert sandbox.stats().protocols == {"1.1": 1}


async def test_every_option_of_the_sdk_fits_the_schema(sandbox: Sandbox, sdk: Sdk) -> None:
    message = messaging.Message(
        fid="phone-1",
        data={"k": "v"},
        android=messaging.AndroidConfig(
            collapse_key="c",
            priority="high",
            ttl=3_600.5,
            restricted_package_name="org.example",
            data={"k": "v"},
            notification=messaging.AndroidNotification(
                title="t",
                body="b",
                icon="i",
                color="#336699",
                sound="default",
                tag="t",
                click_action="OPEN",
                body_loc_key="k",
                body_loc_args=["a"],
                title_loc_key="k",
                title_loc_args=["a"],
                channel_id="c",
                image="https://example.org/a.png",
                ticker="t",
                sticky=True,
                local_only=True,
                priority="max",
                vibrate_timings_millis=[100, 1_500],
                default_vibrate_timings=False,
                default_sound=True,
                light_settings=messaging.LightSettings(
                    color="#112233", light_on_duration_millis=200, light_off_duration_millis=300
                ),
                visibility="public",
                notification_count=3,
                proxy="deny",
            ),
            fcm_options=messaging.AndroidFCMOptions(analytics_label="a"),
            direct_boot_ok=True,
        ),
        apns=messaging.APNSConfig(
            headers={"apns-priority": "10"},
            payload=messaging.APNSPayload(
                aps=messaging.Aps(alert=messaging.ApsAlert(title="t", body="b"), badge=2, sound="default"),
                custom=1,
            ),
            fcm_options=messaging.APNSFCMOptions(analytics_label="a"),
        ),
        webpush=messaging.WebpushConfig(
            headers={"TTL": "60"},
            data={"k": "v"},
            notification=messaging.WebpushNotification(title="t", body="b"),
            fcm_options=messaging.WebpushFCMOptions(link="https://example.org"),
        ),
        fcm_options=messaging.FCMOptions(analytics_label="a"),
    )

    await sdk.send(message)

    assert sandbox.stats().answers == {"OK": 1}


async def test_send_each_answers_in_order(sandbox: Sandbox, sdk: Sdk) -> None:
    sandbox.phones.unregister("phone-2")
    messages = [messaging.Message(fid=f"phone-{number}") for number in range(5)]

    batch = await asyncio.to_thread(messaging.send_each, messages, app=sdk.app())

    assert [response.success for response in batch.responses] == [True, True, False, True, True]
    assert (batch.success_count, batch.failure_count) == (4, 1)
    assert isinstance(batch.responses[2].exception, messaging.UnregisteredError)


async def test_send_each_for_multicast_reaches_every_phone(sandbox: Sandbox, sdk: Sdk) -> None:
    message = messaging.MulticastMessage(fids=["a", "b", "c"], data={"k": "v"})

    batch = await asyncio.to_thread(messaging.send_each_for_multicast, message, app=sdk.app())

    assert batch.success_count == 3
    assert {phone.token for phone in sandbox.phones.page(offset=0, limit=10)} == {"a", "b", "c"}


async def test_send_each_async_delivers(sandbox: Sandbox, sdk: Sdk, request: pytest.FixtureRequest) -> None:
    messages = [messaging.Message(fid=f"phone-{number}") for number in range(20)]

    batch = await sdk.send_each_async(messages)

    assert batch.success_count == sandbox.phones.count == 20
    over_tls = request.node.callspec.params["sdk"] == "https"
    assert sandbox.stats().protocols == {"2" if over_tls else "1.1": 20}


async def test_topics_and_conditions_are_taken(sandbox: Sandbox, sdk: Sdk) -> None:
    await sdk.send(messaging.Message(topic="/topics/news"))
    await sdk.send(messaging.Message(condition="'news' in topics && 'sport' in topics"))

    targets = [received.target for received in sandbox.phones.messages(after=0, limit=10)]
    assert targets == ["news", "'news' in topics && 'sport' in topics"]


async def test_a_dry_run_delivers_nothing(sandbox: Sandbox, sdk: Sdk) -> None:
    message = messaging.Message(fid="phone-1")

    assert await sdk.send(message, dry_run=True) == f"projects/{PROJECT}/messages/fake_message_id"
    assert (await sdk.send_each_async([message], dry_run=True)).success_count == 1
    assert sandbox.phones.count == 0


EXCEPTIONS = {
    "INVALID_ARGUMENT": exceptions.InvalidArgumentError,
    "INVALID_TOKEN": exceptions.InvalidArgumentError,
    "FAILED_PRECONDITION": exceptions.FailedPreconditionError,
    "OUT_OF_RANGE": exceptions.OutOfRangeError,
    "UNAUTHENTICATED": exceptions.UnauthenticatedError,
    "THIRD_PARTY_AUTH_ERROR": messaging.ThirdPartyAuthError,
    "PERMISSION_DENIED": exceptions.PermissionDeniedError,
    "SENDER_ID_MISMATCH": messaging.SenderIdMismatchError,
    "NOT_FOUND": exceptions.NotFoundError,
    "UNREGISTERED": messaging.UnregisteredError,
    "ABORTED": exceptions.AbortedError,
    "ALREADY_EXISTS": exceptions.AlreadyExistsError,
    "CONFLICT": exceptions.ConflictError,
    "RESOURCE_EXHAUSTED": exceptions.ResourceExhaustedError,
    "RATE_LIMIT_EXCEEDED": exceptions.ResourceExhaustedError,
    "QUOTA_EXCEEDED": messaging.QuotaExceededError,
    "DEVICE_QUOTA_EXCEEDED": messaging.QuotaExceededError,
    "CANCELLED": exceptions.CancelledError,
    "DATA_LOSS": exceptions.DataLossError,
    "UNKNOWN": exceptions.UnknownError,
    "INTERNAL": exceptions.InternalError,
    "UNAVAILABLE": exceptions.UnavailableError,
    "DEADLINE_EXCEEDED": exceptions.DeadlineExceededError,
}


@pytest.mark.parametrize("way", ["send", "send_each_async"])
@pytest.mark.parametrize("code", sorted(EXCEPTIONS))
async def test_an_error_is_raised_as_the_sdks_own_type(
    sandbox: Sandbox, sdk: Sdk, code: str, way: str
) -> None:
    sandbox.faults.script("phone-1", Refuse(code), repeat=True)

    error = await sdk.error_of(way, messaging.Message(fid="phone-1"))

    assert type(error) is EXCEPTIONS[code]
    assert error.http_response.status_code == error.http_response.json()["error"]["code"]
    assert str(error) == error.http_response.json()["error"]["message"]


def test_no_error_the_sandbox_knows_is_left_out() -> None:
    from tocsin.sandbox.fcm.errors import REFUSALS

    assert EXCEPTIONS.keys() == REFUSALS.keys()


def test_no_error_the_sdk_knows_is_left_out() -> None:
    known = {
        kind
        for module in (exceptions, messaging)
        for kind in vars(module).values()
        if isinstance(kind, type) and issubclass(kind, exceptions.FirebaseError)
    }

    assert known - set(EXCEPTIONS.values()) == {exceptions.FirebaseError}


@pytest.mark.parametrize("code", ["UNAVAILABLE", "INTERNAL"])
async def test_the_sdk_tries_again_when_the_service_is_down(sandbox: Sandbox, sdk: Sdk, code: str) -> None:
    steps = [Refuse(code)] * (TRIES - 1)
    sandbox.faults.script("phone-1", *steps, Pass())

    await sdk.send(messaging.Message(fid="phone-1"))

    assert sandbox.stats().answers == {code: TRIES - 1, "OK": 1}


async def test_a_revoked_access_token_is_renewed(sandbox: Sandbox, sdk: Sdk) -> None:
    app = sdk.app()
    for _ in range(2):
        await asyncio.to_thread(messaging.send, messaging.Message(fid="phone-1"), app=app)
        sandbox.fcm.tokens.revoke_all()

    stats = sandbox.stats()
    assert (stats.answers, stats.access_tokens_issued) == ({"OK": 2, "UNAUTHENTICATED": 1}, 2)


async def test_a_time_out_is_a_deadline_exceeded(sandbox: Sandbox, sdk: Sdk) -> None:
    sandbox.faults.script("phone-1", Hang(), repeat=True)

    batch = await sdk.send_each_async([messaging.Message(fid="phone-1")], timeout_seconds=0.3)

    assert type(batch.responses[0].exception) is exceptions.DeadlineExceededError


async def test_a_refused_payload_names_its_field(sandbox: Sandbox, sdk: Sdk) -> None:
    error = await sdk.error_of("send", messaging.Message(fid="phone-1", data={"from": "me"}))

    assert type(error) is exceptions.InvalidArgumentError
    assert "Invalid data payload key: from" in str(error)
    assert sandbox.phones.count == 0


async def test_a_payload_too_large_is_an_invalid_argument(sdk: Sdk) -> None:
    error = await sdk.error_of("send", messaging.Message(fid="phone-1", data={"k": "x" * 5_000}))

    assert type(error) is exceptions.InvalidArgumentError
    assert "too large" in str(error)
