"""Deciding which deliveries a notification becomes."""

from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from datetime import UTC, datetime, timedelta
from typing import assert_never

import msgspec

from tocsin.domain.catalog import Channel, NotificationType
from tocsin.domain.delivery.reasons import Reason
from tocsin.domain.delivery.states import State
from tocsin.domain.ids import DeliveryId, new_delivery_id
from tocsin.domain.people.recipient import (
    ConditionRecipient,
    ConfigRecipient,
    EmailRecipient,
    Recipient,
    TopicRecipient,
    UserRecipient,
    address_of,
    route_id,
)

FURTHEST_AHEAD = timedelta(hours=14)
_FAILING: Channel = "push"


class PlannedDelivery(msgspec.Struct, frozen=True, kw_only=True):
    """A delivery before it has a row.

    `fallback_for` names the channel that has to fail first.
    """

    id: DeliveryId
    channel: Channel
    user_id: str | None = None
    address: str | None = None
    state: State
    reason: Reason | None = None
    due_at: datetime
    ordering_key: str | None = None
    collapse_key: str | None = None
    digest_key: str | None = None
    fallback_for: Channel | None = None


class Conditions(msgspec.Struct, frozen=True, kw_only=True):
    """What holds for all deliveries of a notification.

    `off` names the channels that are switched off for its type; `collected_by` what it is collected by
    in a digest, besides the recipient and the channel.
    """

    available: AbstractSet[str]
    off: AbstractSet[str] = frozenset()
    due_at: datetime
    now: datetime
    collapse_key: str | None = None
    collected_by: str | None = None


def due_time(send_at: datetime | None, send_at_local: datetime | None, now: datetime) -> datetime:
    """Tell when a notification can fall due at the earliest.

    A wall time comes first where clocks are furthest ahead; each person's own is found then.
    """
    if send_at_local is not None:
        return max(send_at_local.replace(tzinfo=UTC) - FURTHEST_AHEAD, now)
    return max(send_at, now) if send_at else now


def plan(
    kind: NotificationType,
    recipients: Iterable[Recipient],
    *,
    conditions: Conditions,
) -> list[PlannedDelivery]:
    """Give every recipient one delivery by each channel of the type, if only to say why not."""
    return [delivery for recipient in recipients for delivery in _for_recipient(kind, recipient, conditions)]


def _for_recipient(
    kind: NotificationType, recipient: Recipient, conditions: Conditions
) -> Iterator[PlannedDelivery]:
    user_id = recipient.user_id if isinstance(recipient, UserRecipient) else None
    address = address_of(recipient)
    failover = kind.policies.failover
    for channel in kind.channels:
        reason = _obstacle(recipient, channel, conditions)
        slot = route_id(channel, recipient)
        due_at, fallback_for = conditions.due_at, None
        # Whom no push can reach from the start is not kept waiting for one.
        if failover and channel == failover.to and not (reason or _obstacle(recipient, _FAILING, conditions)):
            due_at, fallback_for = due_at + failover.after, _FAILING
        waiting = State.SCHEDULED if due_at > conditions.now else State.PENDING
        yield PlannedDelivery(
            id=new_delivery_id(),
            channel=channel,
            user_id=user_id,
            address=address,
            state=State.SKIPPED if reason else waiting,
            reason=reason,
            due_at=due_at,
            ordering_key=slot if kind.policies.ordered else None,
            collapse_key=f"{slot}:{conditions.collapse_key}" if conditions.collapse_key else None,
            digest_key=f"{slot}:{conditions.collected_by}"
            if conditions.collected_by and not reason
            else None,
            fallback_for=fallback_for,
        )


def _obstacle(recipient: Recipient, channel: Channel, conditions: Conditions) -> Reason | None:
    match recipient:
        case ConfigRecipient():
            return Reason.NO_ADMINS_CONFIGURED
        case EmailRecipient():
            reaches = channel == "email"
        case TopicRecipient() | ConditionRecipient():
            reaches = channel == "push"
        case UserRecipient():
            reaches = True
        case _:
            assert_never(recipient)
    if not reaches:
        return Reason.CHANNEL_NOT_FOR_RECIPIENT
    if channel in conditions.off:
        return Reason.TOGGLE_OFF
    return None if channel in conditions.available else Reason.CHANNEL_UNAVAILABLE
