"""Native rows: an intent is published as the envelope that it means."""

from typing import Any

import pytest
import structlog

from tests.aws.publisher.office import FIFO, QUICK, Office, Publishing, envelope
from tests.aws.publisher.stand_in import StandInTopic
from tests.catalogs import shipped
from tests.engine.stage import MovableClock
from tests.ingress.outbox.outboxes import Shop, intent
from tocsin.ingress.outbox.install import install
from tocsin.ingress.outbox.settings import OutboxSettings
from tocsin.store.pool import Pool
from tocsin.telemetry import metrics
from tocsin.telemetry.samples import read_samples


@pytest.fixture
async def native(office: Office) -> Shop:
    await install(office.connection, "public", "tocsin_outbox")
    return office


def settings(native: Shop, **changes: Any) -> OutboxSettings:
    return OutboxSettings(url=native.url, topic_arn=FIFO, poll_seconds=QUICK, **changes)


async def test_the_texts_of_an_intent_are_those_of_the_catalog(
    native: Shop, publishing: Publishing, topic: StandInTopic
) -> None:
    row_id = await native.publish(intent("ada", trace_id="trace-1"))
    own = await native.publish(intent("ada", idempotency_key="order.17", locale="tr"))
    async with publishing.running(settings(native, types={"customer.added": "new_customer"})):
        await native.all_published()

    first, second = topic.messages
    assert first.event == f"office:{row_id}"
    assert (first.group, first.deduplication_id) == ("user-ada", f"office:{row_id}-ada")
    assert first.attributes == {"event_type": "customer.added"}
    assert first.envelope["body"] == "Ali Veli just signed up."
    assert first.envelope["correlation_id"] == "trace-1"
    assert first.envelope["extras"] == {"customer_name": "Ali Veli"}
    assert second.event == "order.17"
    assert second.envelope["body"] != first.envelope["body"]
    assert own > row_id


async def test_a_payload_may_bring_its_texts_and_then_needs_no_catalog(
    native: Shop, publishing: Publishing, topic: StandInTopic
) -> None:
    payload = {"title": "Late", "severity": "error", "org_id": "org-1", "ticket": "T-7"}
    await native.publish(intent("ada", type="ticket.late", payload=payload))
    async with publishing.running(settings(native)):
        await native.all_published()

    [message] = topic.messages
    assert message.attributes == {"event_type": "ticket.late", "org_id": "org-1", "severity": "error"}
    assert message.envelope["extras"] == {"ticket": "T-7"}


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (intent(type="nothing"), "is not in the catalog"),
        (intent(payload={}), "payload.customer_name: is missing"),
        (intent(audience={"admins": True}), "for users alone"),
        (intent(ttl_seconds=60), "does not carry it"),
    ],
    ids=["unknown type", "payload", "audience", "time to live"],
)
async def test_what_an_envelope_cannot_be_made_of_is_refused(
    native: Shop, publishing: Publishing, topic: StandInTopic, content: dict[str, Any], error: str
) -> None:
    row_id = await native.publish(content)
    async with publishing.running(settings(native)):
        row = await native.failed(row_id, 1)

    assert error in row["last_error"]
    assert not topic.messages


async def test_what_looks_like_personal_data_is_counted_and_logged_once_an_hour_without_it(
    office: Office, publishing: Publishing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics.switch, "on", True)
    leaking = {"recipients": ["ada"], "extras": {"contact": {"mail": "grace@example.org"}}}
    await office.write(*(envelope(**leaking) for _ in range(3)), envelope("ada"))
    with structlog.testing.capture_logs() as logs:
        async with publishing.running(name="leaking"):
            await office.done()

    [warning] = [log for log in logs if log["event"] == "personal data suspected"]
    assert (warning["type"], warning["kinds"], warning["fields"]) == (
        "comment.added",
        ["email"],
        ["extras.contact.mail"],
    )
    assert "grace" not in str(logs)
    assert read_samples()["tocsin_personal_data_suspected_total"][("leaking", "email")] == 3
    assert read_samples()["tocsin_topic_messages_total"][("leaking", "published")] == 4
    assert ("leaking",) in read_samples()["tocsin_topic_publish_seconds"]


async def test_the_check_can_be_switched_off(office: Office, publishing: Publishing) -> None:
    await office.write(envelope("ada", body="grace@example.org"))
    with structlog.testing.capture_logs() as logs:
        async with publishing.running(publishing.settings(check_personal_data=False)):
            await office.done()

    assert "personal data suspected" not in [log["event"] for log in logs]


async def test_two_outboxes_may_share_a_topic(
    native: Shop, pool: Pool, topic: StandInTopic, clock: MovableClock
) -> None:
    publishing = Publishing(pool, shipped(), native, topic.url, clock)
    await native.connection.execute("create schema billing")
    await install(native.connection, "billing", "told")
    await native.publish()
    await native.connection.execute("set search_path = billing")
    await native.publish()
    async with (
        publishing.running(settings(native), name="shop"),
        publishing.running(settings(native, schema="billing", table="told"), name="billing"),
    ):
        await native.all_published("public.tocsin_outbox")
        await native.all_published("billing.told")

    assert {message.event for message in topic.messages} == {"shop:1", "billing:1"}
