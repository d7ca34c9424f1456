import time
from base64 import urlsafe_b64encode
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import jwt
import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from pyreqwest.http import Url

from tests.providers.sandboxes import Caller, Reply, calling
from tocsin.domain.people.push_subscription import read_subscription
from tocsin.providers.webpush.crypto import Vapid, encrypt, new_private_key_pem, point, read_point
from tocsin.sandbox import Cut, Hang, Quota, Refuse, Sandbox, SandboxSettings
from tocsin.sandbox.faults.injector import UnknownFaultCodeError
from tocsin.sandbox.webpush.errors import REFUSALS
from tocsin.sandbox.webpush.service import WebPush

PEM = new_private_key_pem()
CONTENT = {"title": "New customer", "data": {"delivery_id": "d-1"}}


@pytest.fixture(scope="module")
async def running(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Sandbox]:
    async with Sandbox(SandboxSettings(folder=tmp_path_factory.mktemp("sandbox"))) as sandbox:
        yield sandbox


@pytest.fixture
def sandbox(running: Sandbox) -> Sandbox:
    running.reset()
    return running


@pytest.fixture
async def caller(sandbox: Sandbox) -> AsyncIterator[Caller]:
    async with calling(sandbox, secure=True, authorized=False) as opened:
        yield opened


@pytest.fixture
def stand_in(sandbox: Sandbox) -> WebPush:
    return sandbox.webpush


async def push(caller: Caller, sandbox: Sandbox, browser: str, **changes: str | bytes | None) -> Reply:
    """Send a message in order, but for what is changed; None leaves a header out."""
    token = msgspec.json.encode(sandbox.subscription(browser)).decode()
    subscription = read_subscription(token)
    key, origin = read_point(subscription.p256dh), Url(subscription.endpoint).origin_ascii
    body = changes.pop("body", encrypt(msgspec.json.encode(CONTENT), key, subscription.auth))
    path = changes.pop("path", subscription.endpoint.removeprefix(sandbox.https_url))
    headers = {
        "ttl": "60",
        "content-encoding": "aes128gcm",
        "authorization": Vapid(PEM, "mailto:ops@example.com").authorization(origin),
    } | {name.replace("_", "-"): value for name, value in changes.items()}
    assert isinstance(body, bytes)
    assert isinstance(path, str)
    present = {name: value for name, value in headers.items() if isinstance(value, str)}
    return await caller.call("POST", path, body, present)


async def test_a_message_in_order_is_created_and_read_by_the_browser(
    caller: Caller, sandbox: Sandbox
) -> None:
    reply = await push(caller, sandbox, "firefox")

    assert (reply.status, reply.headers["ttl"]) == (201, "60")
    (received,) = sandbox.phones.messages(after=0, limit=10)
    assert received.message == {"headers": {"ttl": 60, "urgency": None, "topic": None}, "content": CONTENT}
    assert reply.headers["location"].endswith(received.message_id)
    assert sandbox.stats("webpush").answers == {"CREATED": 1}


@pytest.mark.parametrize(
    ("header", "value", "status", "words"),
    [
        ("ttl", None, 400, "TTL"),
        ("ttl", "soon", 400, "TTL"),
        ("ttl", "-1", 400, "TTL"),
        ("urgency", "extreme", 400, "Urgency"),
        ("topic", "x" * 33, 400, "Topic"),
        ("topic", "a b", 400, "Topic"),
        ("content_encoding", None, 400, "aes128gcm"),
        ("content_encoding", "aesgcm", 400, "aes128gcm"),
        ("authorization", None, 401, "missing"),
        ("authorization", "Bearer abc", 401, "missing"),
        ("authorization", "vapid t=abc", 401, "missing"),
        ("authorization", "vapid t=abc, k=abc", 403, "not valid"),
    ],
)
async def test_headers_are_checked(
    caller: Caller, sandbox: Sandbox, header: str, value: str | None, status: int, words: str
) -> None:
    reply = await push(caller, sandbox, "firefox", **{header: value})

    assert reply.status == status
    assert words in reply.body.decode()
    assert sandbox.phones.count == 0


def signature(origin: str, **claims: Any) -> str:
    key = ec.generate_private_key(ec.SECP256R1())
    public = urlsafe_b64encode(point(key.public_key())).decode().rstrip("=")
    usual = {"aud": origin, "exp": int(time.time()) + 3_600, "sub": "mailto:ops@example.com"}
    chosen = {name: value for name, value in (usual | claims).items() if value is not None}
    return f"vapid t={jwt.encode(chosen, key, algorithm='ES256')}, k={public}"


@pytest.mark.parametrize(
    ("claims", "words"),
    [
        ({"exp": 1_600_000_000}, "expired"),
        ({"exp": None}, "not valid"),
        ({"exp": 4_000_000_000}, "more than 24 hours"),
        ({"aud": "https://push.example.com"}, "another push service"),
        ({"sub": None}, "names nobody"),
        ({"sub": "ops@example.com"}, "names nobody"),
    ],
)
async def test_a_signature_has_to_hold(
    caller: Caller, sandbox: Sandbox, claims: dict[str, Any], words: str
) -> None:
    good = await push(caller, sandbox, "firefox", authorization=signature(sandbox.https_url))
    bad = await push(caller, sandbox, "firefox", authorization=signature(sandbox.https_url, **claims))

    assert (good.status, bad.status) == (201, 403)
    assert words in bad.body.decode()


async def test_the_signature_of_one_key_is_not_taken_for_another(caller: Caller, sandbox: Sandbox) -> None:
    first, second = signature(sandbox.https_url), signature(sandbox.https_url)
    assert (await push(caller, sandbox, "firefox", authorization=first)).status == 201
    mixed = f"{first.partition(', ')[0]}, {second.partition(', ')[2]}"

    assert (await push(caller, sandbox, "firefox", authorization=mixed)).status == 403


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"x" * 200, "not one aes128gcm record"),
        (b"\0" * 20 + b"\x41" + b"\x04" + b"\x01" * 64 + b"x" * 40, "no point"),
        (
            encrypt(b"{}", ec.generate_private_key(ec.SECP256R1()).public_key(), b"0" * 16),
            "not encrypted for",
        ),
    ],
)
async def test_what_the_browser_cannot_read_is_refused(
    caller: Caller, sandbox: Sandbox, body: bytes, words: str
) -> None:
    reply = await push(caller, sandbox, "firefox", body=body)

    assert reply.status == 400
    assert words in reply.body.decode()


@pytest.mark.parametrize("plaintext", [b"hello", b'"\xff"', b"[" * 1_900 + b"]" * 1_900])
async def test_what_is_no_json_is_read_as_text(caller: Caller, sandbox: Sandbox, plaintext: bytes) -> None:
    subscription = read_subscription(msgspec.json.encode(sandbox.subscription("firefox")).decode())
    body = encrypt(plaintext, read_point(subscription.p256dh), subscription.auth)

    assert (await push(caller, sandbox, "firefox", body=body)).status == 201

    (received,) = sandbox.phones.messages(after=0, limit=10)
    assert received.message["content"] == plaintext.decode(errors="replace")


@pytest.mark.parametrize("encoding", [None, "aes128gcm"])
async def test_a_message_without_a_body_is_legal(
    caller: Caller, sandbox: Sandbox, encoding: str | None
) -> None:
    reply = await push(caller, sandbox, "firefox", body=b"", content_encoding=encoding)

    assert reply.status == 201
    (received,) = sandbox.phones.messages(after=0, limit=10)
    assert (received.message["content"], received.delivery_id) == (None, None)


async def test_a_body_over_the_limit_is_refused(caller: Caller, sandbox: Sandbox) -> None:
    assert (await push(caller, sandbox, "firefox", body=b"x" * 4_097)).status == 413


@pytest.mark.parametrize("path", ["/webpush/", "/webpush/abc", "/webpush/YQ.AAAA", "/webpush/%FF.x"])
async def test_an_endpoint_that_was_made_up_is_not_found(caller: Caller, sandbox: Sandbox, path: str) -> None:
    assert (await push(caller, sandbox, "firefox", path=path)).status == 404


async def test_a_browser_that_left_is_gone_until_it_comes_back(caller: Caller, sandbox: Sandbox) -> None:
    endpoint = sandbox.subscription("firefox").endpoint.removeprefix(sandbox.https_url)
    sandbox.phones.unregister("firefox")
    gone = await push(caller, sandbox, "chrome", path=endpoint)
    back = await push(caller, sandbox, "firefox")

    assert (gone.status, back.status) == (410, 201)


async def test_the_quota_of_one_browser_is_its_own(
    caller: Caller, sandbox: Sandbox, stand_in: WebPush
) -> None:
    stand_in.faults.device_quota(Quota(1))

    replies = [await push(caller, sandbox, name) for name in ("firefox", "firefox", "chrome")]

    assert [reply.status for reply in replies] == [201, 429, 201]


# A redirection leads nowhere, and this caller would follow it.
@pytest.mark.parametrize("code", sorted(set(REFUSALS) - {"REDIRECT"}))
async def test_every_refusal_can_be_scripted(
    caller: Caller, sandbox: Sandbox, stand_in: WebPush, code: str
) -> None:
    stand_in.faults.script("firefox", Refuse(code))

    assert (await push(caller, sandbox, "firefox")).status == REFUSALS[code].status
    assert sandbox.stats("webpush").answers == {code: 1}


def test_a_refusal_that_no_push_service_gives_cannot_be_scripted(stand_in: WebPush) -> None:
    with pytest.raises(UnknownFaultCodeError):
        stand_in.faults.script("firefox", Refuse("UNREGISTERED"))


async def test_a_message_may_arrive_although_its_answer_does_not(
    caller: Caller, sandbox: Sandbox, stand_in: WebPush
) -> None:
    stand_in.faults.script("firefox", Cut(delivered=True), Hang())

    with pytest.raises(Exception, match="body"):
        await push(caller, sandbox, "firefox")
    assert sandbox.phones.count == 1


async def test_the_control_api_makes_browsers(caller: Caller, sandbox: Sandbox) -> None:
    made = await caller.json("POST", "/_sandbox/browsers/firefox")

    assert made.status == 200
    assert made.body == msgspec.to_builtins(sandbox.subscription("firefox"))
    assert set(made.body) == {"endpoint", "expirationTime", "keys"}
    assert (await caller.json("GET", "/_sandbox/phones/firefox")).body["live"]


async def test_a_subscription_outlives_the_sandbox_whose_folder_is_kept(tmp_path: Path) -> None:
    settings = SandboxSettings(folder=tmp_path)
    async with Sandbox(settings) as first:
        before = first.subscription("firefox")
    async with Sandbox(settings) as second:
        after = second.subscription("firefox")
    async with Sandbox() as another:
        elsewhere = another.subscription("firefox")

    assert before.keys == after.keys
    assert before.endpoint.rpartition("/")[2] == after.endpoint.rpartition("/")[2]
    assert elsewhere.keys != before.keys
    assert (tmp_path / "browsers.seed").stat().st_mode & 0o077 == 0
