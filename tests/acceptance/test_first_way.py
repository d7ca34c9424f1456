"""The whole way once, over real HTTP, through real processes and a real database."""

import statistics
import uuid
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.acceptance.figures import Figure
from tests.acceptance.installation import Installation, Producer, installed
from tests.databases import fresh_database
from tests.edges.edge import person
from tests.waiting import until
from tocsin.sandbox import Pass, Quota, Refuse
from tocsin.sandbox.phones import Phones

IDLE_LATENCY_MS = 50


class Running(msgspec.Struct, frozen=True):
    """An installation with an API and a worker."""

    installation: Installation
    producer: Producer


@pytest.fixture(scope="module")
async def running(
    server_url: str, template_database: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Running]:
    """Serve the tests of this file that disturb nobody: each has people and phones of its own."""
    folder: Path = tmp_path_factory.mktemp("first_way")
    async with (
        fresh_database(server_url, template_database) as url,
        installed(url, folder) as installation,
    ):
        [_, producer] = await installation.start_worker(), await installation.start_api()
        yield Running(installation, producer)


class Phone(msgspec.Struct, frozen=True):
    """A person, their only phone, and what it received."""

    user_id: str
    token: str
    running: Running

    def received(self) -> list[dict[str, Any]]:
        phone = self.running.installation.sandbox.phones.find(self.token)
        return [received.message for received in phone.messages] if phone else []

    def script(self, *steps: Refuse | Pass) -> None:
        self.running.installation.sandbox.faults.script(self.token, *steps)

    async def device(self) -> dict[str, Any]:
        [device] = await self.running.producer.devices(self.user_id)
        return device


@pytest.fixture
async def phone(running: Running) -> Phone:
    """Give a person with one registered phone."""
    name = uuid.uuid4().hex
    made = Phone(f"user-{name}", f"phone-{name}", running)
    await running.producer.register(made.user_id, made.token)
    return made


async def test_from_a_registered_phone_to_a_shown_notification(running: Running) -> None:
    producer, phones = running.producer, running.installation.sandbox.phones
    await producer.register("ayşe", "phone-of-ayşe", locale="tr-TR", platform="ios")
    await producer.register("minji", "phone-of-minji")
    await producer.register("ada", "phone-of-ada")
    directory = await producer.http.put(
        "/v1/users/minji", headers=producer.key, json={"locale": "ko", "timezone": "Asia/Seoul"}
    )
    assert directory.status_code in {200, 204}, directory.text

    notification_id = await producer.notify("ayşe", "minji", "ada")
    deliveries = await producer.deliveries_in(notification_id, "sent")

    titles = {"ayşe": "Yeni müşteri", "minji": "신규 고객", "ada": "New customer"}
    assert {delivery["recipient"] for delivery in deliveries} == {f"user:{name}" for name in titles}
    for delivery in deliveries:
        user_id = delivery["recipient"].removeprefix("user:")
        phone = phones.find(f"phone-of-{user_id}")
        assert phone is not None
        [received] = phone.messages
        assert received.message["notification"]["title"] == titles[user_id]
        assert "Ali Veli" in received.message["notification"]["body"]
        assert received.message["data"]["delivery_id"] == delivery["delivery_id"]
        assert received.message["data"]["notification_id"] == notification_id
        assert delivery["provider_message_id"].endswith(received.message_id)
        assert (delivery["attempt_count"], delivery["attempts"]) == (1, [])


async def test_the_command_line_makes_the_key_and_tells_the_same_story(
    running: Running, phone: Phone
) -> None:
    installation, http = running.installation, running.producer.http
    made = await installation.processes.run(
        "keys", "create", "billing", "--json", environment=installation.environment
    )
    key = msgspec.json.decode("\n".join(made.output))["key"]
    producer = Producer(running.producer.process, http, key)
    notification_id = await producer.notify(phone.user_id)
    await producer.delivery_in(notification_id, "sent")

    shown = await installation.processes.run(
        "show", notification_id, "--json", environment=installation.environment
    )

    assert msgspec.json.decode("\n".join(shown.output)) == await producer.show(notification_id)


async def test_nobody_registers_for_another_person_or_without_a_token(running: Running) -> None:
    http, body = running.producer.http, {"token": "stolen", "platform": "ios", "user_id": "ada"}

    for_another = await http.post("/v1/devices/register", headers=person("eve"), json=body)
    without = await http.post("/v1/devices/register", json=body)
    without_key = await http.post("/v1/notifications", json={})

    assert (for_another.status_code, for_another.json()["code"]) == (403, "not_your_user")
    assert (without.status_code, without.json()["code"]) == (401, "unauthenticated")
    assert (without_key.status_code, without_key.json()["code"]) == (401, "unauthenticated")


async def test_the_same_again_is_a_duplicate_and_other_content_a_conflict(
    running: Running, phone: Phone
) -> None:
    producer, key = running.producer, uuid.uuid4().hex
    notification_id = await producer.notify(phone.user_id, idempotency_key=key)

    same = await producer.post(phone.user_id, idempotency_key=key, request_id="another-try")
    other = await producer.post(
        phone.user_id, idempotency_key=key, payload={"customer_name": "Somebody Else"}
    )

    assert (same.status_code, same.json()) == (
        202,
        {"notification_id": notification_id, "status": "duplicate"},
    )
    assert (other.status_code, other.json()["code"]) == (409, "idempotency_conflict")
    assert other.json()["notification_id"] == notification_id
    refused = await running.installation.pool.fetchrow(
        "select producer, code, type from refused_intents where idempotency_key = $1", key
    )
    assert tuple(refused) == ("shop", "idempotency_conflict", "new_customer")
    await producer.delivery_in(notification_id, "sent")
    assert [message["notification"]["body"] for message in phone.received()] == ["Ali Veli just signed up."]


@pytest.mark.parametrize(
    ("scripted", "code"), [("INVALID_TOKEN", "INVALID_ARGUMENT"), ("UNREGISTERED", "UNREGISTERED")]
)
async def test_a_dead_token_retires_its_device(
    running: Running, phone: Phone, scripted: str, code: str
) -> None:
    phone.script(Refuse(scripted))

    gone = await running.producer.delivery_in(await running.producer.notify(phone.user_id), "gone")
    after = await running.producer.delivery_in(await running.producer.notify(phone.user_id), "skipped")

    assert (gone["last_error_code"], gone["attempt_count"]) == (code, 1)
    assert (await phone.device())["retired_reason"] == f"gone: {code}"
    assert after["reason"] == "no_device"
    assert phone.received() == []


async def test_after_a_503_the_next_attempt_succeeds(running: Running, phone: Phone) -> None:
    phone.script(Refuse("UNAVAILABLE"))

    sent = await running.producer.delivery_in(await running.producer.notify(phone.user_id), "sent")

    [failed] = sent["attempts"]
    assert (failed["outcome"], failed["code"], sent["attempt_count"]) == ("retry", "UNAVAILABLE", 2)
    waited = datetime.fromisoformat(sent["settled_at"]) - datetime.fromisoformat(failed["at"])
    assert waited >= timedelta(seconds=0.8)
    assert len(phone.received()) == 1


async def test_a_fault_of_the_payload_keeps_the_token(running: Running, phone: Phone) -> None:
    phone.script(Refuse("INVALID_ARGUMENT"))

    rejected = await running.producer.delivery_in(await running.producer.notify(phone.user_id), "rejected")
    next_one = await running.producer.delivery_in(await running.producer.notify(phone.user_id), "sent")

    assert rejected["last_error_code"] == "INVALID_ARGUMENT"
    assert (await phone.device())["retired_at"] is None
    assert [message["data"]["delivery_id"] for message in phone.received()] == [next_one["delivery_id"]]


async def test_a_token_of_another_project_is_quarantined(running: Running, phone: Phone) -> None:
    phone.script(Refuse("SENDER_ID_MISMATCH"))

    rejected = await running.producer.delivery_in(await running.producer.notify(phone.user_id), "rejected")

    assert rejected["last_error_code"] == "SENDER_ID_MISMATCH"
    assert (await phone.device())["retired_reason"] == "quarantined: SENDER_ID_MISMATCH"


@pytest.mark.parametrize("code", ["THIRD_PARTY_AUTH_ERROR", "DEVICE_QUOTA_EXCEEDED"])
async def test_what_the_device_is_not_to_blame_for_waits_and_costs_nothing(
    running: Running, phone: Phone, code: str
) -> None:
    phone.script(Refuse(code))

    deferred = await running.producer.delivery_in(await running.producer.notify(phone.user_id), "retrying")
    next_one = await running.producer.delivery_in(await running.producer.notify(phone.user_id), "sent")

    [noted] = deferred["attempts"]
    wait = datetime.fromisoformat(deferred["due_at"]) - datetime.fromisoformat(noted["at"])
    assert (noted["outcome"], deferred["attempt_count"]) == ("defer", 0)
    assert wait >= timedelta(minutes=1)
    assert (await phone.device())["retired_at"] is None
    assert next_one["attempt_count"] == 1


async def test_a_used_up_quota_defers_everything_and_spends_no_attempt(installation: Installation) -> None:
    first = await installation.start_worker()
    producer = await installation.start_api()
    phones = await producer.register_many(5)
    installation.sandbox.faults.project_quota(Quota(limit=0))

    notification_id = await producer.notify(*phones)
    deferred = await producer.deliveries_in(notification_id, "retrying")
    await first.logged("circuit opened")

    assert {delivery["attempt_count"] for delivery in deferred} == {0}
    assert {attempt["code"] for delivery in deferred for attempt in delivery["attempts"]} == {
        "QUOTA_EXCEEDED"
    }
    assert installation.sandbox.stats().answers["QUOTA_EXCEEDED"] <= len(phones)

    # A minute passes: the quota is there again, and the rest is over for a worker that comes anew too.
    installation.sandbox.faults.project_quota(None)
    await first.kill()
    await installation.pool.execute("update deliveries set due_at = due_at - interval '2 minutes'")
    await installation.pool.execute("update circuits set retry_at = retry_at - interval '2 minutes'")
    await installation.start_worker()

    sent = await producer.deliveries_in(notification_id, "sent")
    assert {delivery["attempt_count"] for delivery in sent} == {1}
    assert installation.sandbox.phones.count == len(phones)


def _has_arrived(phones: Phones, count: int) -> bool:
    return phones.count >= count


async def test_an_idle_worker_sends_at_once(running: Running, phone: Phone, figure: Figure) -> None:
    phones = running.installation.sandbox.phones
    await running.producer.delivery_in(await running.producer.notify(phone.user_id), "sent")
    latencies = []
    for _ in range(20):
        expected = phones.count + 1
        notification_id = await running.producer.notify(phone.user_id)
        await until(partial(_has_arrived, phones, expected))
        received = next(phones.messages(after=expected - 1, limit=1))
        assert received.message["data"]["notification_id"] == notification_id
        accepted_at = datetime.fromisoformat((await running.producer.show(notification_id))["accepted_at"])
        latencies.append((received.at - accepted_at) / timedelta(milliseconds=1))

    median = statistics.median(latencies)
    figure("accept to provider call, median of 20, idle", f"{median:.1f} ms")
    assert median < IDLE_LATENCY_MS
