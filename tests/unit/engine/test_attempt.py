from uuid import UUID

import pytest

from tests.unit.engine.attempts import LEASE, NOW, PHONE, STEP, a_claimed_delivery, an_attempt
from tocsin.domain.ids import new_delivery_id, uuid7
from tocsin.domain.people.profile import Destination
from tocsin.engine.dispatch.attempt import Attempt

TABLET = Destination(uuid7(), "another", "fcm", "android")


def test_an_attempt_begins_with_what_was_claimed_and_nothing_decided() -> None:
    claimed = a_claimed_delivery(
        attempts=2, retrying=True, reserved=True, channel="email", digest_id=UUID(int=8)
    )

    attempt = Attempt.of(claimed, LEASE, NOW)

    assert (attempt.id, attempt.lease, attempt.claimed_at) == (claimed.id, LEASE, NOW)
    assert (attempt.attempts, attempt.retrying, attempt.reserved) == (2, True, True)
    assert attempt.channel == "email"
    assert (attempt.notification_id, attempt.digest_id) == (claimed.notification_id, UUID(int=8))
    assert (attempt.type, attempt.destination, attempt.message, attempt.tried_at) == (None, None, None, None)
    assert (attempt.steps, attempt.destinations, attempt.allowances) == ((), (), ())


def test_a_sibling_begins_with_no_attempts_and_its_own_device() -> None:
    original = an_attempt(2)
    sibling_id = new_delivery_id()

    sibling = original.sibling(sibling_id, TABLET)
    sibling.add_step(STEP)

    assert (sibling.id, sibling.attempts, sibling.destination) == (sibling_id, 0, TABLET)
    assert (sibling.delivery, sibling.lease, sibling.steps) == (original.delivery, LEASE, (STEP, STEP))
    assert (original.attempts, original.destination, original.steps) == (2, PHONE, (STEP,))


@pytest.mark.parametrize(
    ("changes", "route_id"),
    [
        ({}, "push:user:ada"),
        ({"channel": "email", "user_id": None, "address": "a@b"}, "email:email:sha256-7508d8b5018e"),
        ({"user_id": None, "address": "topic:news"}, "push:topic:news"),
    ],
)
def test_a_log_line_names_the_delivery_its_route_and_its_producer(
    changes: dict[str, str | None], route_id: str
) -> None:
    claimed = a_claimed_delivery(request_id="r-1", trace_id="t-1", **changes)

    assert Attempt.of(claimed, LEASE, NOW).log_fields() == {
        "notification_id": str(claimed.notification_id),
        "digest_id": None,
        "type": "t",
        "producer": "p",
        "delivery_id": str(claimed.id),
        "route_id": route_id,
        "channel": claimed.channel,
        "request_id": "r-1",
        "trace_id": "t-1",
    }


def test_a_log_line_of_a_digest_names_the_digest_and_no_notification() -> None:
    claimed = a_claimed_delivery(notification_id=None, digest_id=UUID(int=8), producer="")
    fields = Attempt.of(claimed, LEASE, NOW).log_fields()

    assert (fields["notification_id"], fields["producer"]) == (None, None)
    assert fields["digest_id"] == str(UUID(int=8))
