"""A filter selects what it says; a faulty one is refused with every fault."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from tests.rows import NOW, add_delivery, add_notification
from tocsin.api.http.bodies import find_faults
from tocsin.domain.catalog import CHANNELS
from tocsin.domain.delivery.reasons import Reason
from tocsin.domain.delivery.states import STATUS_OF, State, Status
from tocsin.store.deliveries.conditions import on_both, on_deliveries, on_notifications
from tocsin.store.pool import Pool
from tocsin.wire.filters import DeliveryFilter, filter_faults

HOUR = timedelta(hours=1)
# Each is selected by one filter and by no other of them.
FILTERS: dict[str, dict[str, Any]] = {
    "of ada": {"user": "ada"},
    "of a type": {"type": "order_shipped"},
    "dead": {"state": "dead"},
    "retrying": {"status": "failed"},
    "delivered": {"status": "published", "provider": "webpush"},
    "opted out": {"reason": "opted_out"},
    "timed out, then sent": {"code": "timeout"},
    "by mail": {"channel": "email"},
    "sent by apns": {"provider": "apns"},
    "waits for expo": {"provider": "expo"},
    "of billing": {"producer": "billing"},
    "with a key": {"key_prefix": "order-10_%"},
    "early": {"to": "2026-03-01T11:00:00Z"},
    "late": {"from": "2026-03-01T15:00:00+02:00"},
    "in the middle": {"from": "2026-03-01T12:10:00Z", "to": "2026-03-01T12:10:00.001Z"},
}


async def add_rows(pool: Pool) -> dict[str, Any]:
    """Add a delivery for each filter, by the name of the filter."""
    notifications: dict[str, dict[str, Any]] = {
        "of a type": {"type": "order_shipped"},
        "of billing": {"producer": "billing"},
        "with a key": {"idempotency_key": "order-10_%5"},
        "of another key": {"idempotency_key": "order-10_x"},
        "early": {"accepted_at": NOW - HOUR - timedelta(microseconds=1)},
        "late": {"accepted_at": NOW + HOUR},
        "in the middle": {"accepted_at": NOW + timedelta(minutes=10)},
    }
    deliveries: dict[str, dict[str, Any]] = {
        "of ada": {"user_id": "ada"},
        "dead": {"state": "dead", "settled_at": NOW},
        "retrying": {"state": "retrying"},
        "delivered": {"state": "delivered", "provider": "webpush"},
        "opted out": {"state": "skipped", "reason": "opted_out", "settled_at": NOW},
        "timed out, then sent": {"state": "sent", "last_error_code": "timeout"},
        "by mail": {"channel": "email", "lane": "smtp"},
        "sent by apns": {"state": "sent", "provider": "apns", "lane": "expo"},
        "waits for expo": {"lane": "expo"},
        "skipped in the lane of expo": {"lane": "expo", "state": "skipped", "reason": "throttled"},
    }
    return {
        name: await add_delivery(
            pool,
            notification_id=await add_notification(pool, **notifications.get(name, {})),
            **{"user_id": "bob"} | deliveries.get(name, {}),
        )
        for name in (*notifications, *deliveries)
    }


async def test_each_field_selects_deliveries_that_have_it(pool: Pool) -> None:
    names = {made: name for name, made in (await add_rows(pool)).items()}

    found = {}
    for name, fields in FILTERS.items():
        conditions = on_both(msgspec.convert(fields, DeliveryFilter), first=2)
        rows = await pool.fetch(
            "select deliveries.id from deliveries "  # noqa: S608 - from the code under test
            "join notifications on notifications.id = deliveries.notification_id "
            f"where $1 and {conditions.sql}",
            True,
            *conditions.arguments,
        )
        found[name] = [names[row["id"]] for row in rows]

    assert found == {name: [name] for name in FILTERS}


def test_fields_are_joined_by_and_and_belong_to_one_table_each() -> None:
    given = DeliveryFilter(user="ada", state=State.DEAD, type="x' or 'a' = 'a", since=NOW)

    own, others, both = on_deliveries(given), on_notifications(given, first=2), on_both(given)

    assert own.arguments == ("ada",)
    assert own.sql == "deliveries.state = 'dead' and deliveries.user_id = $1"
    assert others.arguments == ("x' or 'a' = 'a", NOW)
    assert others.sql == "notifications.type = $2 and notifications.accepted_at >= $3"
    assert (both.sql, both.arguments) == (f"{own.sql} and {others.sql}", own.arguments + others.arguments)
    assert on_both(DeliveryFilter()).sql == "true"


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("state", "failed", f"must be one of {', '.join(State)}"),
        ("status", "sent", f"must be one of {', '.join(Status)}"),
        ("reason", "night", f"must be one of {', '.join(Reason)}"),
        ("channel", "sms", f"must be one of {', '.join(CHANNELS)}"),
        ("user", "a\nb", "has a character or a form that is not allowed here"),
        ("code", "\ud800", "has a character or a form that is not allowed here"),
        ("type", "x" * 201, "expected `str` of length <= 200"),
        ("key_prefix", "", "expected `str` of length >= 1"),
        ("from", "2026-03-01T12:00:00", "expected `datetime` with a timezone component"),
        ("since", "2026-03-01T12:00:00Z", "is not known here; known are user, type, state, status, reason, "),
    ],
)
def test_a_faulty_field_is_refused_with_what_would_be_right(field: str, value: str, message: str) -> None:
    (fault,) = find_faults({field: value}, DeliveryFilter)

    assert fault.field == field
    assert fault.message.startswith(message)


def test_times_are_bounded_and_in_order() -> None:
    far = DeliveryFilter(since=datetime.min.replace(tzinfo=UTC), until=datetime.max.replace(tzinfo=UTC))
    turned = DeliveryFilter(since=NOW, until=NOW)

    assert [fault.field for fault in filter_faults(far)] == ["from", "to"]
    assert [str(fault) for fault in filter_faults(turned)] == ["to: must be later than from"]
    assert not filter_faults(DeliveryFilter(since=NOW, until=NOW + HOUR))


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("status", Status)
def test_a_state_and_a_status_agree_or_are_a_fault(state: State, status: Status) -> None:
    given = DeliveryFilter(state=state, status=status)

    if STATUS_OF.get(state) == status:
        assert not filter_faults(given)
        assert on_deliveries(given).sql == f"deliveries.state = '{state}'"
    else:
        assert [(fault.field, fault.code) for fault in filter_faults(given)] == [("status", "contradiction")]


def test_a_status_selects_all_of_its_states() -> None:
    assert {status: on_deliveries(DeliveryFilter(status=status)).sql for status in Status} == {
        "pending": "deliveries.state in ('scheduled', 'pending')",
        "published": "deliveries.state in ('sent', 'delivered')",
        "failed": "deliveries.state = 'retrying'",
        "dead_letter": "deliveries.state in ('rejected', 'dead')",
        "skipped": "deliveries.state = 'skipped'",
    }
