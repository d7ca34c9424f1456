from collections.abc import Set as AbstractSet
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.domain.catalog import Channel, Failover, NotificationType, Policies
from tocsin.domain.delivery.held_by import HeldByDigest, stored_held_by
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
from tocsin.domain.plan import FAN_OUT, Conditions, PlannedDelivery, due_time, plan

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
ALL = frozenset({"push", "email", "inbox", "webhook"})
PROVIDERS = {
    "push": ("fcm", "apns", "expo"),
    "email": ("smtp",),
    "inbox": ("inbox",),
    "webhook": ("webhook",),
}

WALL = datetime(2026, 3, 5, 9, 30)  # noqa: DTZ001 - a wall time has no zone


def declared(*channels: Channel, name: str = "t", **policies: Any) -> NotificationType:
    return NotificationType(
        name=name,
        version=1,
        category="c",
        channels=channels,
        default_locale="en",
        payload_schema={},
        policies=Policies(**policies),
    )


def planned(
    notification_type: NotificationType, *recipients: Recipient, **changes: Any
) -> list[PlannedDelivery]:
    given: dict[str, Any] = {"providers": PROVIDERS, "due_at": NOW, "now": NOW}
    return plan(notification_type, recipients, conditions=Conditions(**given | changes))


def only(channels: AbstractSet[str]) -> dict[str, tuple[str, ...]]:
    """Return the providers of a deployment that has these channels."""
    return {channel: names if channel in channels else () for channel, names in PROVIDERS.items()}


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
    (delivery,) = planned(declared(channel), recipient, providers=only(available), off=off)

    assert delivery.reason == reason
    assert delivery.state == (State.SKIPPED if reason else State.PENDING)
    assert delivery.channel == channel


def test_each_recipient_has_one_delivery_by_each_channel() -> None:
    made = planned(declared("push", "email"), UserRecipient("ada"), UserRecipient("bob"))

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
    (delivery,) = planned(declared("push"), UserRecipient("ada"), due_at=due_time(send_at, None, NOW))

    assert (delivery.state, delivery.due_at) == (state, due_at)


def test_a_wall_time_falls_due_no_later_than_in_any_zone() -> None:
    due_at = due_time(None, WALL, NOW)

    assert all(due_at <= WALL.replace(tzinfo=ZoneInfo(name)) for name in available_timezones())
    assert any(due_at == WALL.replace(tzinfo=ZoneInfo(name)) for name in available_timezones())


def test_a_wall_time_that_passed_everywhere_is_due_now() -> None:
    assert due_time(None, WALL, datetime(2026, 3, 7, tzinfo=UTC)) == datetime(2026, 3, 7, tzinfo=UTC)


def test_only_ordered_types_have_an_ordering_key_one_for_each_person_channel_and_type() -> None:
    people = UserRecipient("ada"), UserRecipient("bob"), EmailRecipient("a@b")

    keys = [delivery.ordering_key for delivery in planned(declared("push", "email", ordered=True), *people)]

    assert keys == [
        "push:user:ada:t",
        "email:user:ada:t",
        "push:user:bob:t",
        "email:user:bob:t",
        "push:email:a@b:t",
        "email:email:a@b:t",
    ]
    assert {delivery.ordering_key for delivery in planned(declared("push"), *people)} == {None}


def test_a_collapse_key_counts_within_one_person_channel_and_type() -> None:
    made = planned(
        declared("push", "email"), UserRecipient("ada"), UserRecipient("bob"), collapse_key="chat:7"
    )

    assert len({delivery.collapse_key for delivery in made}) == 4
    assert made[0].collapse_key == "push:user:ada:chat:7:t"
    (another_type,) = planned(declared("push", name="u"), UserRecipient("ada"), collapse_key="chat:7")
    assert another_type.collapse_key == "push:user:ada:chat:7:u"
    assert planned(declared("push"), UserRecipient("ada"))[0].collapse_key is None


def test_types_of_one_ordering_group_share_their_order() -> None:
    grouped = [
        planned(declared("push", name=name, ordered=True, ordering_group="orders"), UserRecipient("ada"))
        for name in ("order_paid", "order_sent")
    ]
    (alone,) = planned(declared("push", name="order_paid", ordered=True), UserRecipient("ada"))

    assert {delivery.ordering_key for (delivery,) in grouped} == {"push:user:ada:orders"}
    assert alone.ordering_key == "push:user:ada:order_paid"


def test_an_ordering_group_is_kept_apart_by_person_and_channel() -> None:
    made = planned(
        declared("push", "email", ordered=True, ordering_group="orders"),
        UserRecipient("ada"),
        UserRecipient("bob"),
    )

    assert [delivery.ordering_key for delivery in made] == [
        "push:user:ada:orders",
        "email:user:ada:orders",
        "push:user:bob:orders",
        "email:user:bob:orders",
    ]


@pytest.mark.parametrize(
    ("recipient", "channel", "lane"),
    [
        # The devices of a person are looked up when it is stored, not here.
        (UserRecipient("ada"), "push", FAN_OUT),
        (UserRecipient("ada"), "email", "smtp"),
        (UserRecipient("ada"), "webhook", "webhook"),
        (UserRecipient("ada"), "inbox", "inbox"),
        (EmailRecipient("a@b"), "email", "smtp"),
        (TopicRecipient("news"), "push", "fcm"),
        (ConditionRecipient("'a' in topics"), "push", "fcm"),
    ],
)
def test_a_delivery_has_the_lane_of_the_provider_that_takes_it(
    recipient: Recipient, channel: Channel, lane: str
) -> None:
    (delivery,) = planned(declared(channel), recipient)

    assert delivery.lane == lane


def test_the_only_provider_of_pushes_takes_them_whatever_the_devices() -> None:
    (delivery,) = planned(declared("push"), UserRecipient("ada"), providers={"push": ("apns",)})

    assert delivery.lane == "apns"


@pytest.mark.parametrize("broadcast", [TopicRecipient("news"), ConditionRecipient("'a' in topics")])
def test_a_broadcast_without_fcm_has_no_lane_of_its_own(broadcast: Recipient) -> None:
    (delivery,) = planned(declared("push"), broadcast, providers={"push": ("apns",)})

    assert delivery.lane == FAN_OUT


def test_the_first_provider_of_a_channel_takes_its_mail() -> None:
    (delivery,) = planned(declared("email"), UserRecipient("ada"), providers={"email": ("smtp", "other")})

    assert delivery.lane == "smtp"


@pytest.mark.parametrize("channel", ["push", "email", "webhook"])
def test_a_channel_without_providers_has_no_lane(channel: Channel) -> None:
    (delivery,) = planned(declared(channel), UserRecipient("ada"), providers={})

    assert (delivery.lane, delivery.reason) == (FAN_OUT, Reason.CHANNEL_UNAVAILABLE)


def test_members_of_a_digest_are_held_under_the_key_of_their_slot_and_group() -> None:
    window_ends = NOW + timedelta(hours=1)
    made = planned(
        declared("push", "email"),
        UserRecipient("ada"),
        UserRecipient("bob"),
        digest_group="t@1:7",
        due_at=window_ends,
    )

    assert [delivery.digest_key for delivery in made] == [
        "push:user:ada:t@1:7",
        "email:user:ada:t@1:7",
        "push:user:bob:t@1:7",
        "email:user:bob:t@1:7",
    ]
    assert {(each.held_by, each.state, each.due_at) for each in made} == {
        (stored_held_by(HeldByDigest()), State.SCHEDULED, window_ends)
    }


def test_what_is_no_member_of_a_digest_is_held_by_nothing() -> None:
    (delivery,) = planned(declared("push"), UserRecipient("ada"))

    assert (delivery.digest_key, delivery.held_by) == (None, None)


def test_what_cannot_be_sent_is_no_member_of_a_digest() -> None:
    push, email = planned(declared("push", "email"), UserRecipient("ada"), digest_group="t@1", off={"email"})

    assert (push.digest_key, push.held_by, push.reason) == ("push:user:ada:t@1", "digest", None)
    assert (email.digest_key, email.held_by, email.reason) == (None, None, Reason.TOGGLE_OFF)


def test_a_broadcast_has_its_topic_or_condition_for_an_address() -> None:
    made = planned(declared("push"), TopicRecipient("news"), ConditionRecipient("'a' in topics"))

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
        declared("push", "email", "inbox", failover=FAILS_OVER), UserRecipient("ada"), due_at=due_at
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
    _, email = planned(
        declared("push", "email", failover=FAILS_OVER), recipient, providers=only(available), off=off
    )

    assert (email.fallback_for, email.due_at, email.state) == (None, NOW, State.PENDING)


@pytest.mark.parametrize(
    ("recipient", "changes", "reason"),
    [
        (UserRecipient("ada"), {"off": {"email"}}, Reason.TOGGLE_OFF),
        (UserRecipient("ada"), {"providers": only({"push"})}, Reason.CHANNEL_UNAVAILABLE),
        (TopicRecipient("news"), {}, Reason.CHANNEL_NOT_FOR_RECIPIENT),
    ],
)
def test_a_channel_that_cannot_be_used_stands_in_for_nothing(
    recipient: Recipient, changes: dict[str, Any], reason: Reason
) -> None:
    push, email = planned(declared("push", "email", failover=FAILS_OVER), recipient, **changes)

    assert push.state is State.PENDING
    assert (email.state, email.reason, email.fallback_for) == (State.SKIPPED, reason, None)
    assert email.due_at == NOW


def test_every_reason_is_explained() -> None:
    assert set(MEANING) == set(Reason)
    assert all(MEANING.values())


@given(
    channels=st.lists(st.sampled_from(("push", "email", "webhook")), min_size=1, unique=True),
    allowed=st.none() | st.sets(st.sampled_from(("push", "email", "webhook"))),
    available=st.sets(st.sampled_from(sorted(ALL))),
    off=st.sets(st.sampled_from(sorted(ALL))),
)
def test_every_slot_is_planned_and_those_outside_the_audience_are_skipped(
    channels: list[Channel], allowed: set[str] | None, available: set[str], off: set[str]
) -> None:
    people: tuple[Recipient, ...] = UserRecipient("ada"), EmailRecipient("a@b"), TopicRecipient("news")
    chosen: dict[str, Any] = {"providers": only(available), "off": off}

    made = planned(declared(*channels), *people, channels=allowed, **chosen)
    unlimited = planned(declared(*channels), *people, **chosen)

    assert [each.channel for each in made] == channels * len(people)
    for each, other in zip(made, unlimited, strict=True):
        outside = allowed is not None and each.channel not in allowed
        assert each.reason == (Reason.CHANNEL_NOT_FOR_AUDIENCE if outside else other.reason)
        assert each.state == (State.SKIPPED if each.reason else State.PENDING)


@pytest.mark.parametrize("allowed", [None, ("email",), ("push",)])
@pytest.mark.parametrize("channels", [("push", "email"), ("push",), ("email", "webhook")])
def test_administrators_who_are_not_configured_have_one_email_slot(
    channels: tuple[Channel, ...], allowed: tuple[str, ...] | None
) -> None:
    (slot,) = planned(declared(*channels), ConfigRecipient("t"), channels=allowed)

    assert (slot.channel, slot.state, slot.reason) == (
        "email",
        State.SKIPPED,
        Reason.NO_ADMINS_CONFIGURED,
    )


def test_nobody_waits_for_a_push_that_is_not_for_their_audience() -> None:
    failing_over = declared("push", "email", failover=Failover(to="email", after=timedelta(minutes=10)))

    push, mail = planned(failing_over, UserRecipient("ada"), channels=("email",))

    assert push.reason == Reason.CHANNEL_NOT_FOR_AUDIENCE
    assert (mail.state, mail.due_at, mail.fallback_for) == (State.PENDING, NOW, None)
