"""The reference client of Web Push, unchanged, is the judge of the stand-in's truth."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import requests
from pywebpush import WebPushException, webpush  # type: ignore[import-untyped]

from tocsin.providers.webpush.crypto import new_private_key_pem, public_key_of
from tocsin.sandbox import Cut, Hang, Outage, Quota, Refuse, Sandbox

CLAIMS = {"sub": "mailto:ops@example.com"}


class Client:
    """Sends with pywebpush to browsers of the sandbox."""

    def __init__(self, sandbox: Sandbox, key_file: Path) -> None:
        self.sandbox = sandbox
        self.stand_in = sandbox.webpush
        self.key_file = key_file
        self.public_key = public_key_of(key_file.read_text())
        self.session = requests.Session()
        # A bundle of certificates named in the environment would come before this one.
        self.session.trust_env = False
        self.session.verify = str(sandbox.ca_file)

    def subscription(self, name: str) -> dict[str, Any]:
        subscribed = self.stand_in.subscribe(name, self.sandbox.https_url, sender_key=self.public_key)
        content: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(subscribed))
        return content

    async def send(
        self, name: str, data: str = "hello", claims: dict[str, str | int] | None = None, **options: Any
    ) -> requests.Response:
        subscribed = self.subscription(name)

        def run() -> requests.Response:
            answer = webpush(
                subscribed,
                data,
                vapid_private_key=str(self.key_file),
                vapid_claims={**CLAIMS, **(claims or {})},
                requests_session=self.session,
                **{"timeout": 10.0, **options},
            )
            assert isinstance(answer, requests.Response)
            return answer

        return await asyncio.to_thread(run)

    async def refused(self, name: str, **options: Any) -> requests.Response:
        with pytest.raises(WebPushException) as caught:
            await self.send(name, **options)
        response = caught.value.response
        assert isinstance(response, requests.Response)
        return response


@pytest.fixture(scope="module")
async def running() -> AsyncIterator[Sandbox]:
    async with Sandbox() as sandbox:
        yield sandbox


@pytest.fixture
def client(running: Sandbox, tmp_path: Path) -> Iterator[Client]:
    running.reset()
    key_file = tmp_path / "vapid.pem"
    key_file.write_text(new_private_key_pem())
    made = Client(running, key_file)
    yield made
    made.session.close()


async def test_a_message_arrives_decrypted(client: Client) -> None:
    content = {"title": "Neue Kundin", "data": {"delivery_id": "d-1"}}

    answer = await client.send(
        "firefox", json.dumps(content), ttl=60, headers={"urgency": "high", "topic": "customers"}
    )

    assert answer.status_code == 201
    assert answer.headers["location"].startswith(client.sandbox.https_url)
    (received,) = client.sandbox.phones.messages(after=0, limit=10)
    assert (received.provider, received.target, received.delivery_id) == ("webpush", "firefox", "d-1")
    assert received.message == {
        "headers": {"ttl": 60, "urgency": "high", "topic": "customers"},
        "content": content,
    }


async def test_plain_text_arrives_as_text(client: Client) -> None:
    await client.send("firefox", "grüezi 👋")

    (received,) = client.sandbox.phones.messages(after=0, limit=10)
    assert received.message["content"] == "grüezi 👋"
    assert received.delivery_id is None


async def test_a_browser_that_left_is_gone(client: Client) -> None:
    await client.send("firefox")
    subscribed = client.subscription("firefox")
    client.sandbox.phones.unregister("firefox")

    def run() -> None:
        webpush(subscribed, "hello", str(client.key_file), dict(CLAIMS), requests_session=client.session)

    with pytest.raises(WebPushException) as caught:
        await asyncio.to_thread(run)
    assert isinstance(caught.value.response, requests.Response)
    assert caught.value.response.status_code == 410


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("BAD_REQUEST", 400),
        ("VAPID_PK_HASH_MISMATCH", 400),
        ("UNAUTHORIZED", 401),
        ("VAPID_PUBLIC_KEY_MISMATCH", 401),
        ("FORBIDDEN", 403),
        ("VAPID_CREDENTIALS_MISMATCH", 403),
        ("NOT_FOUND", 404),
        ("NOT_ACCEPTABLE", 406),
        ("GONE", 410),
        ("PAYLOAD_TOO_LARGE", 413),
        ("TOO_MANY_REQUESTS", 429),
        ("INTERNAL_ERROR", 500),
        ("BAD_GATEWAY", 502),
        ("UNAVAILABLE", 503),
    ],
)
async def test_every_refusal_can_be_scripted(client: Client, code: str, status: int) -> None:
    client.stand_in.faults.script("firefox", Refuse(code, retry_after=7))

    answer = await client.refused("firefox")

    assert (answer.status_code, answer.headers["retry-after"]) == (status, "7")


async def test_a_quota_and_an_outage_refuse(client: Client) -> None:
    client.stand_in.faults.project_quota(Quota(1, retry_after=30))
    await client.send("firefox")
    over = await client.refused("firefox")
    client.stand_in.faults.outage(Outage(retry_after=5))
    away = await client.refused("firefox")

    assert (over.status_code, over.headers["retry-after"]) == (429, "30")
    assert (away.status_code, away.headers["retry-after"]) == (503, "5")


@pytest.mark.parametrize("fault", [Hang(), Cut()])
async def test_an_answer_can_be_kept_back_or_broken_off(client: Client, fault: Hang | Cut) -> None:
    client.stand_in.faults.script("firefox", fault)

    with pytest.raises(requests.RequestException):
        await client.send("firefox", timeout=0.3)


@pytest.mark.parametrize(
    ("claims", "words"),
    [
        ({"aud": "https://push.example.com"}, "another push service"),
        ({"exp": 4_000_000_000}, "more than 24 hours"),
    ],
)
async def test_a_signature_that_does_not_hold_is_refused(
    client: Client, claims: dict[str, str | int], words: str
) -> None:
    answer = await client.refused("firefox", claims=claims)

    assert answer.status_code == 403
    assert words in answer.text


async def test_another_senders_key_is_refused(client: Client) -> None:
    client.key_file.write_text(new_private_key_pem())

    answer = await client.refused("firefox")

    assert answer.status_code == 403
    assert "do not correspond" in answer.text


async def test_what_is_too_large_is_refused(client: Client) -> None:
    assert (await client.send("firefox", "x" * 3_993)).status_code == 201
    assert (await client.refused("firefox", data="x" * 4_100)).status_code == 413


async def test_the_older_encoding_is_refused(client: Client) -> None:
    answer = await client.refused("firefox", content_encoding="aesgcm")

    assert answer.status_code == 400
    assert "aes128gcm" in answer.text
