"""A client that others send to Apple with, unchanged but for its address, judges the stand-in's truth."""

import asyncio
import ssl
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from aioapns import APNs, NotificationRequest, PushType
from aioapns.connection import APNsProductionClientProtocol

from tests.waiting import until
from tocsin.sandbox import Refuse, Sandbox
from tocsin.sandbox.apns.errors import STATUSES
from tocsin.sandbox.apns.service import Apns

TOPIC = "com.example.shop"
PAYLOAD = {"aps": {"alert": {"title": "Hello 신규", "body": "you"}}}


@pytest.fixture(scope="module")
async def running() -> AsyncIterator[Sandbox]:
    async with Sandbox() as sandbox:
        yield sandbox


@pytest.fixture
def sandbox(running: Sandbox) -> Sandbox:
    running.reset()
    return running


class Client:
    """Makes clients that speak to the sandbox, and closes them."""

    def __init__(self, sandbox: Sandbox, folder: Path) -> None:
        self._key = sandbox.apns.write_key(folder / "key.p8").read_text()
        address = urlsplit(sandbox.https_url)

        class Protocol(APNsProductionClientProtocol):
            APNS_SERVER = str(address.hostname)
            APNS_PORT = int(address.port or 443)

        self._protocol = Protocol
        self._tls = ssl.create_default_context(cafile=sandbox.ca_file)
        self._tls.set_alpn_protocols(["h2"])
        self._opened: list[APNs] = []

    def open(self, **changes: Any) -> APNs:
        given = {"key": self._key, "key_id": Apns.key_id, "team_id": Apns.team_id, "topic": TOPIC}
        client = APNs(**given | changes, ssl_context=self._tls)
        client.pool.protocol_class = self._protocol
        self._opened.append(client)
        return client

    async def aclose(self) -> None:
        for client in self._opened:
            client.pool.close()
        await until(lambda: not any(client.pool.connections for client in self._opened))


@pytest.fixture
async def client(sandbox: Sandbox, tmp_path: Path) -> AsyncIterator[Client]:
    made = Client(sandbox, tmp_path)
    yield made
    await made.aclose()


async def test_a_message_is_taken_and_arrives_as_it_was(sandbox: Sandbox, client: Client) -> None:
    apns_id = str(uuid.uuid4())
    request = NotificationRequest(
        "a1b2c3",
        PAYLOAD,
        notification_id=apns_id,
        time_to_live=60,
        priority=10,
        collapse_key="order-7",
        push_type=PushType.ALERT,
    )

    result = await client.open().send_notification(request)

    assert (result.is_successful, result.notification_id, result.status) == (True, apns_id, "200")
    [received] = sandbox.phones.messages(after=0, limit=10)
    assert (received.target, received.message_id) == ("a1b2c3", apns_id)
    assert received.message["aps"] == PAYLOAD["aps"]
    headers = received.message["headers"]
    assert {name: headers[name] for name in ("apns-topic", "apns-push-type", "apns-priority")} == {
        "apns-topic": TOPIC,
        "apns-push-type": "alert",
        "apns-priority": "10",
    }
    assert sandbox.stats("apns").protocols == {"2": 1}


@pytest.mark.parametrize("push_type", [PushType.BACKGROUND, PushType.VOIP])
async def test_other_push_types_are_taken(sandbox: Sandbox, client: Client, push_type: PushType) -> None:
    topic = f"{TOPIC}.voip" if push_type is PushType.VOIP else TOPIC
    request = NotificationRequest(
        "a1", {"aps": {"content-available": 1}}, priority=5, push_type=push_type, apns_topic=topic
    )

    assert (await client.open().send_notification(request)).is_successful
    assert sandbox.phones.count == 1


async def test_many_messages_share_a_connection(sandbox: Sandbox, client: Client) -> None:
    opened = client.open(max_connections=1)

    results = await asyncio.gather(
        *(opened.send_notification(NotificationRequest(f"a{number}", PAYLOAD)) for number in range(200))
    )

    assert all(result.is_successful for result in results)
    assert sandbox.stats("apns").delivered == 200


@pytest.mark.parametrize("code", sorted(STATUSES))
async def test_every_error_is_read_with_its_status_and_reason(
    sandbox: Sandbox, client: Client, code: str
) -> None:
    sandbox.faults_of("apns").script("a1", Refuse(code))
    opened = client.open()

    refused = await opened.send_notification(NotificationRequest("a1", PAYLOAD))
    taken = await opened.send_notification(NotificationRequest("a1", PAYLOAD))

    assert (refused.status, refused.description) == (str(STATUSES[code]), code)
    assert (refused.timestamp is not None) == (refused.status == "410")
    assert taken.is_successful


async def test_a_removed_app_is_told_with_its_moment(sandbox: Sandbox, client: Client) -> None:
    sandbox.phones.unregister("a1")

    result = await client.open().send_notification(NotificationRequest("a1", PAYLOAD))

    assert (result.status, result.description) == ("410", "Unregistered")
    assert result.timestamp is not None
    assert result.timestamp > 1_700_000_000_000


@pytest.mark.parametrize("changes", [{"team_id": "OTHERTEAM1"}, {"key_id": "OTHERKEY01"}])
async def test_a_key_of_somebody_else_is_refused(client: Client, changes: dict[str, str]) -> None:
    result = await client.open(**changes).send_notification(NotificationRequest("a1", PAYLOAD))

    assert (result.status, result.description) == ("403", "InvalidProviderToken")


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"message": {"aps": "x" * 4_100}}, ("413", "PayloadTooLarge")),
        ({"message": {}}, ("400", "PayloadEmpty")),
        ({"priority": 3}, ("400", "BadPriority")),
        ({"push_type": PushType.BACKGROUND, "priority": 10}, ("400", "BadPriority")),
        ({"push_type": PushType.VOIP}, ("400", "BadTopic")),
        ({"collapse_key": "x" * 65}, ("400", "BadCollapseId")),
    ],
    ids=str,
)
async def test_what_apple_refuses_is_refused(
    client: Client, changes: dict[str, Any], expected: tuple[str, str]
) -> None:
    request = NotificationRequest(**{"device_token": "a1", "message": PAYLOAD} | changes)

    result = await client.open().send_notification(request)

    assert (result.status, result.description) == expected
