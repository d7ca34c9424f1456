import time
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import jwt
import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from tests.providers.sandboxes import Caller, Reply, calling
from tocsin.sandbox import Outage, Quota, Refuse, Sandbox, SandboxSettings
from tocsin.sandbox.apns.errors import STATUSES
from tocsin.sandbox.apns.service import Apns

PAYLOAD = {"aps": {"alert": {"title": "Hello", "body": "you"}}, "delivery_id": "d1"}
TOPIC = "com.example.shop"


class Apple:
    """A bare caller of the stand-in for APNs."""

    def __init__(self, sandbox: Sandbox, caller: Caller, key: bytes) -> None:
        self.service = sandbox.apns
        self._caller = caller
        self._key = key

    def token(self, *, key: Any = None, kid: str | None = Apns.key_id, **claims: Any) -> str:
        standard = {"iss": Apns.team_id, "iat": int(time.time())}
        return jwt.encode(standard | claims, key or self._key, algorithm="ES256", headers={"kid": kid})

    async def send(
        self,
        payload: Any = PAYLOAD,
        *,
        path: str = "/3/device/a1b2",
        method: str = "POST",
        authorization: str | None = None,
        **headers: str | None,
    ) -> Reply:
        given: dict[str, str | None] = {
            "authorization": f"bearer {self.token()}" if authorization is None else authorization,
            "apns-topic": TOPIC,
            "apns-push-type": "alert",
        }
        given |= {name.replace("_", "-"): value for name, value in headers.items()}
        body = payload if isinstance(payload, bytes) else msgspec.json.encode(payload)
        return await self._caller.call(
            method, path, body, {name: value for name, value in given.items() if value is not None}
        )

    async def reason(self, payload: Any = PAYLOAD, **asked: Any) -> tuple[int, str]:
        reply = await self.send(payload, **asked)
        assert is_id(reply.headers["apns-id"])
        return reply.status, reply.body["reason"] if reply.body else "OK"


def is_id(text: str) -> bool:
    return str(uuid.UUID(text)) == text.lower()


@pytest.fixture(scope="module")
async def running(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Sandbox]:
    async with Sandbox(SandboxSettings(folder=tmp_path_factory.mktemp("sandbox"))) as sandbox:
        yield sandbox


@pytest.fixture
def sandbox(running: Sandbox) -> Sandbox:
    running.reset()
    return running


@pytest.fixture
async def apple(sandbox: Sandbox, tmp_path: Path) -> AsyncIterator[Apple]:
    async with calling(sandbox, secure=True, authorized=False) as caller:
        service = sandbox.apns
        service.provider_tokens.forget()
        yield Apple(sandbox, caller, service.write_key(tmp_path / "key.p8").read_bytes())
        service.clock = time.time
        service.gone_since = None


async def test_a_message_reaches_its_phone(sandbox: Sandbox, apple: Apple) -> None:
    apns_id = str(uuid.uuid4())

    reply = await apple.send(apns_id=apns_id, apns_priority="10", apns_collapse_id="order-7")

    assert (reply.status, reply.version, reply.body, reply.headers["apns-id"]) == (
        200,
        "HTTP/2.0",
        b"",
        apns_id,
    )
    phone = sandbox.phones.find("a1b2")
    assert phone is not None
    [received] = phone.messages
    assert (received.provider, received.message_id, received.delivery_id) == ("apns", apns_id, "d1")
    headers = {
        "apns-topic": TOPIC,
        "apns-push-type": "alert",
        "apns-priority": "10",
        "apns-id": apns_id,
        "apns-collapse-id": "order-7",
    }
    assert received.message == PAYLOAD | {"headers": headers}
    assert sandbox.stats("apns").answers == {"OK": 1}
    assert sandbox.stats("fcm").requests == 0


async def test_a_message_without_an_id_is_given_one(apple: Apple) -> None:
    assert is_id((await apple.send()).headers["apns-id"])


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"path": "/3/device/"}, (400, "MissingDeviceToken")),
        ({"path": "/3/device/a/b"}, (400, "BadDeviceToken")),
        ({"path": "/3/device/adas-phone"}, (400, "BadDeviceToken")),
        ({"path": "/3/device/00FC13adff785122"}, (200, "OK")),
        ({"path": "/3/phones/a1"}, (404, "BadPath")),
        ({"method": "GET"}, (405, "MethodNotAllowed")),
        ({"apns_id": "7"}, (400, "BadMessageId")),
        ({"apns_topic": None}, (400, "MissingTopic")),
        ({"apns_topic": "com/example"}, (400, "BadTopic")),
        ({"apns_topic": f"{TOPIC}.voip"}, (400, "BadTopic")),
        ({"apns_push_type": "voip"}, (400, "BadTopic")),
        ({"apns_push_type": "shout"}, (400, "InvalidPushType")),
        ({"apns_priority": "7"}, (400, "BadPriority")),
        ({"apns_push_type": "background"}, (400, "BadPriority")),
        ({"apns_push_type": "background", "apns_priority": "10"}, (400, "BadPriority")),
        ({"apns_push_type": "background", "apns_priority": "5"}, (200, "OK")),
        ({"apns_push_type": "voip", "apns_topic": f"{TOPIC}.voip"}, (200, "OK")),
        ({"apns_push_type": None}, (200, "OK")),
        ({"apns_expiration": "soon"}, (400, "BadExpirationDate")),
        ({"apns_expiration": "0"}, (200, "OK")),
        ({"apns_collapse_id": "x" * 65}, (400, "BadCollapseId")),
        ({"apns_collapse_id": "x" * 64}, (200, "OK")),
        ({"payload": b""}, (400, "PayloadEmpty")),
        ({"payload": b"{}"}, (400, "PayloadEmpty")),
        ({"payload": b"[1"}, (400, "PayloadEmpty")),
        ({"payload": b'{"a":"\xff"}'}, (400, "PayloadEmpty")),
        ({"payload": b'{"a":' + b"[" * 2_000 + b"]" * 2_000 + b"}"}, (400, "PayloadEmpty")),
        ({"payload": {"aps": "x" * 4_086}}, (200, "OK")),
        ({"payload": {"aps": "x" * 4_087}}, (413, "PayloadTooLarge")),
        (
            {"payload": {"aps": "x" * 5_110}, "apns_push_type": "voip", "apns_topic": f"{TOPIC}.voip"},
            (200, "OK"),
        ),
        (
            {"payload": {"aps": "x" * 5_111}, "apns_push_type": "voip", "apns_topic": f"{TOPIC}.voip"},
            (413, "PayloadTooLarge"),
        ),
    ],
    ids=str,
)
async def test_a_request_is_judged_as_apple_does(
    apple: Apple, asked: dict[str, Any], expected: tuple[int, str]
) -> None:
    assert await apple.reason(**asked) == expected


async def test_a_provider_token_has_to_be_this_teams_own(apple: Apple) -> None:
    now = int(time.time())
    forged = ec.generate_private_key(ec.SECP256R1())

    assert await apple.reason(authorization="") == (403, "MissingProviderToken")
    assert await apple.reason(authorization="basic abc") == (403, "MissingProviderToken")
    wrong = [
        "nonsense",
        apple.token(key=forged),
        apple.token(kid="OTHERKEY01"),
        apple.token(iss="OTHERTEAM1"),
        apple.token(iat=now + 600),
        apple.token(iat="yesterday"),
        jwt.encode({"iss": Apns.team_id, "iat": now}, "secret" * 8, headers={"kid": Apns.key_id}),
    ]
    for token in wrong:
        assert await apple.reason(authorization=f"bearer {token}") == (403, "InvalidProviderToken")


async def test_a_provider_token_ends_after_an_hour(apple: Apple) -> None:
    token = f"Bearer {apple.token()}"
    assert await apple.reason(authorization=token) == (200, "OK")

    apple.service.clock = lambda: time.time() + 3_590
    assert await apple.reason(authorization=token) == (200, "OK")
    apple.service.clock = lambda: time.time() + 3_605
    assert await apple.reason(authorization=token) == (403, "ExpiredProviderToken")


async def test_provider_tokens_may_be_told_to_last_20_minutes(apple: Apple) -> None:
    first, second = f"bearer {apple.token()}", f"bearer {apple.token()}"
    apple.service.provider_tokens.least_seconds_between = 1_200.0

    assert await apple.reason(authorization=first) == (200, "OK")
    assert await apple.reason(authorization=second) == (429, "TooManyProviderTokenUpdates")
    assert await apple.reason(authorization=first) == (200, "OK")
    apple.service.clock = lambda: time.time() + 1_201
    assert await apple.reason(authorization=second) == (200, "OK")


@pytest.mark.parametrize("code", sorted(STATUSES))
async def test_every_reason_can_be_scripted(sandbox: Sandbox, apple: Apple, code: str) -> None:
    sandbox.faults_of("apns").script("a1b2", Refuse(code, retry_after=9))

    reply = await apple.send()

    assert (reply.status, reply.body["reason"]) == (STATUSES[code], code)
    assert reply.headers["retry-after"] == "9"
    assert ("timestamp" in reply.body) == (reply.status == 410)
    assert sandbox.phones.count == 0
    assert await apple.reason() == (200, "OK")


async def test_an_unregistered_phone_is_gone_since_a_moment(sandbox: Sandbox, apple: Apple) -> None:
    sandbox.phones.unregister("a1b2")
    began = int(time.time() * 1_000)

    now = (await apple.send()).body
    apple.service.gone_since = 1_770_000_000.5
    then = (await apple.send()).body

    assert now["reason"] == "Unregistered"
    assert began <= now["timestamp"] <= time.time() * 1_000
    assert then == {"reason": "Unregistered", "timestamp": 1_770_000_000_500}


async def test_quotas_and_outages_are_told_in_apples_words(sandbox: Sandbox, apple: Apple) -> None:
    faults = sandbox.faults_of("apns")
    faults.device_quota(Quota(1))
    assert [(await apple.reason())[1] for _ in range(2)] == ["OK", "TooManyRequests"]
    assert (await apple.reason(path="/3/device/c3"))[1] == "OK"
    faults.device_quota(None)
    faults.project_quota(Quota(1))
    assert [(await apple.reason())[1] for _ in range(2)] == ["OK", "TooManyRequests"]
    faults.project_quota(None)
    faults.outage(Outage(retry_after=5))
    refused = await apple.send()
    assert (refused.status, refused.body, refused.headers["retry-after"]) == (
        503,
        {"reason": "ServiceUnavailable"},
        "5",
    )


async def test_the_key_stays_with_the_folder(tmp_path: Path) -> None:
    keys = []
    for _ in range(2):
        async with Sandbox(SandboxSettings(folder=tmp_path)) as sandbox:
            written = sandbox.apns.write_key(tmp_path / "mine.p8")
            assert written.stat().st_mode & 0o077 == 0
            keys.append(written.read_text())

    assert keys[0] == keys[1] == (tmp_path / "apns.p8").read_text()
