from datetime import UTC, datetime, timedelta

import pytest

from tocsin.domain.catalog import Channel, NotificationType
from tocsin.domain.delivery import State
from tocsin.domain.plan import plan
from tocsin.domain.reasons import MEANING, Reason
from tocsin.domain.recipient import ConfigRecipient, EmailRecipient, Recipient, UserRecipient

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
ALL = frozenset({"push", "email", "inbox", "webhook"})


def kind(*channels: Channel) -> NotificationType:
    return NotificationType(
        name="t", version=1, category="c", channels=channels, default_locale="en", payload_schema={}
    )


@pytest.mark.parametrize(
    ("recipient", "channel", "available", "reason"),
    [
        (UserRecipient("ada"), "push", ALL, None),
        (UserRecipient("ada"), "email", ALL, None),
        (UserRecipient("ada"), "push", {"email"}, Reason.CHANNEL_UNAVAILABLE),
        (EmailRecipient("a@b"), "email", ALL, None),
        (EmailRecipient("a@b"), "email", {"push"}, Reason.CHANNEL_UNAVAILABLE),
        (EmailRecipient("a@b"), "push", ALL, Reason.CHANNEL_NOT_FOR_RECIPIENT),
        (EmailRecipient("a@b"), "push", set(), Reason.CHANNEL_NOT_FOR_RECIPIENT),
        (ConfigRecipient("t"), "email", ALL, Reason.NO_ADMINS_CONFIGURED),
    ],
)
def test_a_delivery_waits_or_says_why_not(
    recipient: Recipient, channel: Channel, available: set[str], reason: Reason | None
) -> None:
    (delivery,) = plan(kind(channel), [recipient], available=available, send_at=None, now=NOW)

    assert delivery.reason == reason
    assert delivery.state == (State.SKIPPED if reason else State.PENDING)
    assert delivery.channel == channel


def test_each_recipient_has_one_delivery_by_each_channel() -> None:
    planned = plan(
        kind("push", "email"),
        [UserRecipient("ada"), UserRecipient("bob")],
        available=ALL,
        send_at=None,
        now=NOW,
    )

    assert [(delivery.user_id, delivery.channel) for delivery in planned] == [
        ("ada", "push"),
        ("ada", "email"),
        ("bob", "push"),
        ("bob", "email"),
    ]
    assert len({delivery.id for delivery in planned}) == 4


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
    (delivery,) = plan(kind("push"), [UserRecipient("ada")], available=ALL, send_at=send_at, now=NOW)

    assert (delivery.state, delivery.due_at) == (state, due_at)


def test_every_reason_is_explained() -> None:
    assert set(MEANING) == set(Reason)
    assert all(MEANING.values())
