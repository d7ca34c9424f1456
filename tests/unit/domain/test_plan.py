from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

import pytest

from tocsin.domain.catalog import Channel, Failover, NotificationType, Policies
from tocsin.domain.delivery.reasons import MEANING, Reason
from tocsin.domain.delivery.states import State
from tocsin.domain.people.recipient import (
    ConditionRecipient,
    ConfigRecipient,
    EmailRecipient,
    Recipient,
    TopicRecipient,
    UserRecipient,
)
from tocsin.domain.plan import Conditions, PlannedDelivery, due_time, plan

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
ALL = frozenset({"push", "email", "inbox", "webhook"})


WALL = datetime(2026, 3, 5, 9, 30)  # noqa: DTZ001 - a wall time has no zone


def kind(*channels: Channel, **policies: Any) -> NotificationType:
    return NotificationType(
        name="t",
        version=1,
        category="c",
        channels=channels,
        default_locale="en",
        payload_schema={},
        policies=Policies(**policies),
    )


def planned(kind: NotificationType, *recipients: Recipient, **changes: Any) -> list[PlannedDelivery]:
    given: dict[str, Any] = {"available": ALL, "due_at": NOW, "now": NOW}
    return plan(kind, recipients, conditions=Conditions(**given | changes))


@pytest.mark.parametrize(
    ("recipient", "channel", "available", "off", "reason"),
    [
        (UserRecipient("ada"), "push", ALL, set(), None),
        (UserRecipient("ada"), "email", ALL, set(), None),
        (UserRecipient("ada"), "push", ALL, {"email"}, None),
        (UserRecipient("ada"), "push", ALL, {"push"}, Reason.TOGGLE_OFF),
        (UserRecipient("ada"), "push", {"email"}, set(), Reason.CHANNEL_UNAVAILABLE),
        (UserRecipient("ada"), "push", {"email"}, {"push"}, Reason.TOGGLE_OFF),
        (EmailRecipient("a@b"), "email", ALL, set(), None),
        (EmailRecipient("a@b"), "email", ALL, {"email"}, Reason.TOGGLE_OFF),
        (EmailRecipient("a@b"), "email", {"push"}, set(), Reason.CHANNEL_UNAVAILABLE),
        (EmailRecipient("a@b"), "push", ALL, {"push"}, Reason.CHANNEL_NOT_FOR_RECIPIENT),
        (EmailRecipient("a@b"), "push", set(), set(), Reason.CHANNEL_NOT_FOR_RECIPIENT),
        (ConfigRecipient("t"), "email", ALL, {"email"}, Reason.NO_ADMINS_CONFIGURED),
        (TopicRecipient("news"), "push", ALL, set(), None),
        (TopicRecipient("news"), "push", ALL, {"push"}, Reason.TOGGLE_OFF),
        (TopicRecipient("news"), "push", {"email"}, set(), Reason.CHANNEL_UNAVAILABLE),
        (TopicRecipient("news"), "email", ALL, set(), Reason.CHANNEL_NOT_FOR_RECIPIENT),
        (ConditionRecipient("'a' in topics"), "push", ALL, set(), None),
        (ConditionRecipient("'a' in topics"), "inbox", ALL, set(), Reason.CHANNEL_NOT_FOR_RECIPIENT),
    ],
)
def test_a_delivery_waits_or_says_why_not(
    recipient: Recipient, channel: Channel, available: set[str], off: set[str], reason: Reason | None
) -> None:
    (delivery,) = planned(kind(channel), recipient, available=available, off=off)

    assert delivery.reason == reason
    assert delivery.state == (State.SKIPPED if reason else State.PENDING)
    assert delivery.channel == channel


def test_each_recipient_has_one_delivery_by_each_channel() -> None:
    made = planned(kind("push", "email"), UserRecipient("ada"), UserRecipient("bob"))

    assert [(delivery.user_id, delivery.channel) for delivery in made] == [
        ("ada", "push"),
        ("ada", "email"),
        ("bob", "push"),
        ("bob", "email"),
    ]
    assert len({delivery.id for delivery in made}) == 4


@pytest.mark.parametrize(
    ("send_at", "state", "due_at"),
    [
        (None, State.PENDING, NOW),
        (NOW - timedelta(days=1), State.PENDING, NOW),
        (NOW, State.PENDING, NOW),
        (NOW + timedelta(seconds=1), State.SCHEDULED, NOW + timedelta(seconds=1)),
    ],
)
def test_only_what_lies_ahead_is_scheduled(send_at: datetime | None, state: State, due_at: datetime) -> None:
    (delivery,) = planned(kind("push"), UserRecipient("ada"), due_at=due_time(send_at, None, NOW))

    assert (delivery.state, delivery.due_at) == (state, due_at)


def test_a_wall_time_falls_due_no_later_than_in_any_zone() -> None:
    due_at = due_time(None, WALL, NOW)

    assert all(due_at <= WALL.replace(tzinfo=ZoneInfo(name)) for name in available_timezones())
    assert any(due_at == WALL.replace(tzinfo=ZoneInfo(name)) for name in available_timezones())


def test_a_wall_time_that_passed_everywhere_is_due_now() -> None:
    assert due_time(None, WALL, datetime(2026, 3, 7, tzinfo=UTC)) == datetime(2026, 3, 7, tzinfo=UTC)


def test_only_ordered_types_stand_in_rows_one_for_each_person_and_channel() -> None:
    people = UserRecipient("ada"), UserRecipient("bob"), EmailRecipient("a@b")

    keys = [delivery.ordering_key for delivery in planned(kind("push", "email", ordered=True), *people)]

    assert keys == [
        "push:user:ada",
        "email:user:ada",
        "push:user:bob",
        "email:user:bob",
        "push:email:a@b",
        "email:email:a@b",
    ]
    assert {delivery.ordering_key for delivery in planned(kind("push"), *people)} == {None}


def test_what_collapses_does_so_within_one_person_and_channel() -> None:
    made = planned(kind("push", "email"), UserRecipient("ada"), UserRecipient("bob"), collapse_key="chat:7")

    assert len({delivery.collapse_key for delivery in made}) == 4
    assert made[0].collapse_key == "push:user:ada:chat:7"
    assert planned(kind("push"), UserRecipient("ada"))[0].collapse_key is None


def test_a_broadcast_has_its_topic_or_condition_for_an_address() -> None:
    made = planned(kind("push"), TopicRecipient("news"), ConditionRecipient("'a' in topics"))

    assert [(delivery.user_id, delivery.address) for delivery in made] == [
        (None, "topic:news"),
        (None, "condition:'a' in topics"),
    ]


AFTER = timedelta(minutes=10)
FAILS_OVER = Failover(to="email", after=AFTER)


@pytest.mark.parametrize("ahead", [timedelta(0), timedelta(hours=1)])
def test_the_channel_that_stands_in_waits_its_time_after_the_push(ahead: timedelta) -> None:
    due_at = NOW + ahead
    push, email, inbox = planned(
        kind("push", "email", "inbox", failover=FAILS_OVER), UserRecipient("ada"), due_at=due_at
    )

    assert (push.fallback_for, push.due_at) == (None, due_at)
    assert (email.fallback_for, email.due_at, email.state) == ("push", due_at + AFTER, State.SCHEDULED)
    assert (inbox.fallback_for, inbox.due_at) == (None, due_at)


@pytest.mark.parametrize(
    ("recipient", "available", "off"),
    [
        (EmailRecipient("a@b"), ALL, set()),
        (UserRecipient("ada"), {"email"}, set()),
        (UserRecipient("ada"), ALL, {"push"}),
    ],
)
def test_whom_no_push_can_reach_is_told_by_the_other_channel_at_once(
    recipient: Recipient, available: set[str], off: set[str]
) -> None:
    _, email = planned(kind("push", "email", failover=FAILS_OVER), recipient, available=available, off=off)

    assert (email.fallback_for, email.due_at, email.state) == (None, NOW, State.PENDING)


@pytest.mark.parametrize(
    ("recipient", "changes", "reason"),
    [
        (UserRecipient("ada"), {"off": {"email"}}, Reason.TOGGLE_OFF),
        (UserRecipient("ada"), {"available": {"push"}}, Reason.CHANNEL_UNAVAILABLE),
        (TopicRecipient("news"), {}, Reason.CHANNEL_NOT_FOR_RECIPIENT),
    ],
)
def test_a_channel_that_cannot_be_used_stands_in_for_nothing(
    recipient: Recipient, changes: dict[str, Any], reason: Reason
) -> None:
    push, email = planned(kind("push", "email", failover=FAILS_OVER), recipient, **changes)

    assert push.state is State.PENDING
    assert (email.state, email.reason, email.fallback_for) == (State.SKIPPED, reason, None)
    assert email.due_at == NOW


def test_every_reason_is_explained() -> None:
    assert set(MEANING) == set(Reason)
    assert all(MEANING.values())
