"""What people's devices report, with a login or by the token that came with the push."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import httpx
import pytest

from tests import rows
from tests.edges.edge import Edge, faults, person, running, services
from tocsin.api.auth.roles import Role
from tocsin.domain.delivery.receipts import ReceiptSettings, receipt_token
from tocsin.domain.ids import uuid7
from tocsin.store import receipts
from tocsin.store.pool import Pool
from tocsin.store.receipts import CountedType

SECRET = "a secret for receipts of 32 bytes or more"
TODAY = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
STORED = "select delivered_at, opened_at, dismissed_at from receipts where delivery_id = $1"


@pytest.fixture
async def signed(pool: Pool) -> AsyncIterator[Edge]:
    settings = ReceiptSettings(secret=SECRET, per_minute=5)
    async with running(services(pool, receipts=settings)) as opened:
        yield opened


async def a_push(pool: Pool, user_id: str | None = "ada", **changes: Any) -> UUID:
    """Add a push that was sent."""
    return await rows.add_delivery(
        pool, user_id, **{"state": "sent", "settled_at": TODAY + timedelta(minutes=1)} | changes
    )


async def report(edge: Edge, body: Any, user_id: str = "ada") -> httpx.Response:
    return await edge.http.post("/v1/receipts", json=body, headers=person(user_id))


def receipt(delivery_id: UUID, event: str = "opened") -> dict[str, str]:
    return {"delivery_id": str(delivery_id), "event": event}


def statuses(answer: httpx.Response) -> list[str]:
    assert answer.status_code == 200, answer.text
    return [each["status"] for each in answer.json()["results"]]


async def state(pool: Pool, delivery_id: UUID) -> str:
    return str((await rows.delivery(pool, delivery_id))["state"])


async def test_what_arrived_is_delivered_and_its_times_are_kept(edge: Edge) -> None:
    push = await a_push(edge.pool)

    assert statuses(await report(edge, receipt(push, "delivered"))) == ["recorded"]
    first = await edge.pool.fetchrow(STORED, push)
    assert (await state(edge.pool, push), first["opened_at"]) == ("delivered", None)

    assert statuses(await report(edge, receipt(push, "opened"))) == ["recorded"]
    second = await edge.pool.fetchrow(STORED, push)
    assert second["delivered_at"] == first["delivered_at"] < second["opened_at"]

    assert statuses(await report(edge, receipt(push, "opened"))) == ["known"]
    assert await edge.pool.fetchrow(STORED, push) == second


@pytest.mark.parametrize("event", ["opened", "dismissed"])
async def test_what_was_opened_or_dismissed_was_delivered(edge: Edge, event: str) -> None:
    push = await a_push(edge.pool)

    assert statuses(await report(edge, receipt(push, event))) == ["recorded"]

    stored = await edge.pool.fetchrow(STORED, push)
    assert stored["delivered_at"] == stored[f"{event}_at"] is not None
    assert await state(edge.pool, push) == "delivered"


async def test_a_list_has_a_result_for_each(edge: Edge) -> None:
    first, second = await a_push(edge.pool), await a_push(edge.pool)
    others = await a_push(edge.pool, "bob")

    answer = await report(
        edge,
        [
            receipt(first, "delivered"),
            receipt(second),
            receipt(others),
            receipt(first, "delivered"),
            receipt(uuid7()),
        ],
    )

    assert statuses(answer) == ["recorded", "recorded", "not_found", "known", "not_found"]
    assert await state(edge.pool, others) == "sent"


@pytest.mark.parametrize(
    "waiting",
    ["scheduled", "pending", "retrying", "rejected", "gone", "dead", "cancelled", "expired"],
)
async def test_only_what_was_sent_can_have_arrived(edge: Edge, waiting: str) -> None:
    push = await a_push(edge.pool, state=waiting)

    assert statuses(await report(edge, receipt(push))) == ["not_found"]
    assert await state(edge.pool, push) == waiting


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"delivery_id": "7", "event": "opened"}, "delivery_id"),
        ({"delivery_id": str(uuid7()), "event": "eaten"}, "event"),
        ({"delivery_id": str(uuid7()), "event": "opened", "user_id": "bob"}, "user_id"),
        ([], "$"),
        ([{"delivery_id": str(uuid7()), "event": "opened"}] * 101, "$"),
    ],
)
async def test_what_makes_no_sense_is_refused(edge: Edge, body: Any, field: str) -> None:
    answer = await report(edge, body)

    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_body")
    assert list(faults(answer)) == [field]


async def test_a_person_may_report_so_much_a_minute(signed: Edge) -> None:
    push = await a_push(signed.pool)
    answers = [await report(signed, receipt(push)) for _ in range(12)]

    refused = [answer for answer in answers if answer.status_code == 429]
    assert len(refused) >= 2
    assert refused[0].json()["code"] == "rate_limited"
    assert 1 <= int(refused[0].headers["Retry-After"]) <= 60
    assert statuses(await report(signed, receipt(await a_push(signed.pool, "bob")), "bob")) == ["recorded"]


async def test_a_device_without_a_login_reports_by_its_token(signed: Edge) -> None:
    push, other = await a_push(signed.pool), await a_push(signed.pool)
    body = receipt(push) | {"receipt_token": receipt_token(SECRET, push)}

    assert len(body["receipt_token"]) == 22
    assert statuses(await signed.http.post("/v1/receipts/signed", json=body)) == ["recorded"]
    assert statuses(await signed.http.post("/v1/receipts/signed", json=body)) == ["known"]
    for wrong in ("", "x", "ü" * 22, receipt_token(SECRET, other), receipt_token("another secret", push)):
        answer = await signed.http.post("/v1/receipts/signed", json=body | {"receipt_token": wrong})
        assert (answer.status_code, answer.json()["code"]) == (403, "not_allowed"), wrong
    assert await state(signed.pool, other) == "sent"


async def test_a_delivery_to_a_topic_has_no_receipts(signed: Edge) -> None:
    push = await a_push(signed.pool, None, address="topic:news")
    body = receipt(push) | {"receipt_token": receipt_token(SECRET, push)}

    assert statuses(await signed.http.post("/v1/receipts/signed", json=body)) == ["not_found"]


async def test_tokens_are_off_unless_a_secret_is_set(edge: Edge) -> None:
    push = await a_push(edge.pool)
    body = receipt(push) | {"receipt_token": receipt_token(SECRET, push)}

    assert (await edge.http.post("/v1/receipts/signed", json=body)).status_code == 404
    assert (await edge.http.post("/v1/receipts", json=receipt(push))).status_code == 401


async def test_rates_are_of_the_day_of_sending_and_by_type(edge: Edge) -> None:
    day = TODAY - timedelta(days=3)
    async with edge.pool.acquire() as connection:
        await receipts.count(connection, {CountedType(day, "new_customer", "push", "sent"): 4})
    for event in ("delivered", "opened", "opened"):
        push = await a_push(edge.pool, settled_at=day + timedelta(hours=5))
        await report(edge, [receipt(push, event), receipt(push, event)])
    viewer = await edge.key(Role.VIEWER)

    async def rates(**query: str) -> Any:
        answer = await edge.http.get("/v1/admin/receipts", params=query, headers=viewer)
        assert answer.status_code == 200, answer.text
        return answer.json()["rates"]

    expected = {
        "type": "new_customer",
        "channel": "push",
        "sent": 4,
        "delivered": 3,
        "opened": 2,
        "dismissed": 0,
        "delivery_rate": 0.75,
        "open_rate": 0.5,
    }
    assert await rates() == await rates(type="new_customer") == [expected]
    assert await rates(type="other") == await rates(**{"from": TODAY.isoformat()}) == []
    for far in ("0001-01-01T00:00:00Z", "9999-12-31T23:59:59-14:00"):
        answer = await edge.http.get("/v1/admin/receipts", params={"to": far}, headers=viewer)
        assert (answer.status_code, list(faults(answer))) == (422, ["to"])
    producer = await edge.key(Role.PRODUCER)
    assert (await edge.http.get("/v1/admin/receipts", headers=producer)).status_code == 403


async def test_what_was_reported_is_shown_with_its_delivery(edge: Edge) -> None:
    notification_id = await rows.add_notification(edge.pool)
    push = await a_push(edge.pool, notification_id=notification_id)
    await a_push(edge.pool, notification_id=notification_id)
    path, key = f"/v1/notifications/{notification_id}", await edge.key(Role.VIEWER)
    before = (await edge.http.get(path, headers=key)).json()

    await report(edge, receipt(push, "dismissed"))
    await report(edge, receipt(push, "opened"))

    after = {
        each["delivery_id"]: each for each in (await edge.http.get(path, headers=key)).json()["deliveries"]
    }
    stored = await edge.pool.fetchrow(STORED, push)
    assert [each["receipts"] for each in before["deliveries"]] == [[], []]
    assert [(each["event"], datetime.fromisoformat(each["at"])) for each in after[str(push)]["receipts"]] == [
        ("delivered", stored["delivered_at"]),
        ("dismissed", stored["delivered_at"]),
        ("opened", stored["opened_at"]),
    ]
    assert sorted(len(each["receipts"]) for each in after.values()) == [0, 3]
