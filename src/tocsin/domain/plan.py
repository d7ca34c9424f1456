"""Plans the deliveries of a notification."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import UTC, datetime, timedelta
from typing import assert_never

import msgspec
from msgspec.structs import replace

from tocsin.domain.catalog import Channel, NotificationType
from tocsin.domain.delivery.held_by import DIGEST
from tocsin.domain.delivery.reasons import Reason
from tocsin.domain.delivery.states import State
from tocsin.domain.ids import LAST, DeliveryId, new_delivery_id
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

TOPIC_PROVIDER = "fcm"
GATEWAY_STREAM = "gateway_stream"
"""Hands every push to a gateway, which finds a person's sessions by itself: no device is needed."""
MAIL_STREAM = "mail_stream"
INBOX = "inbox"
"""The provider of the channel of the same name: the list of messages inside an application."""
HAND_OFF = frozenset({GATEWAY_STREAM, MAIL_STREAM})
"""The providers that hand off to another service, which shapes the message."""
FURTHEST_AHEAD = timedelta(hours=14)
CONFIG_CHANNELS: tuple[Channel, ...] = ("email",)
"""The channels of the placeholder for administrators who are not configured: they would get mail."""
FAN_OUT = "fanout"
"""The lane of a delivery whose provider is not known yet, or that goes to several."""
_FAILING: Channel = "push"
_NO_DELIVERY = DeliveryId(LAST)
"""The id of a delivery until it has a recipient."""
_TOPICS = (TopicRecipient, ConditionRecipient)


class PlannedDelivery(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A delivery before it has a row.

    `fallback_for` is the channel that has to fail first. One with a `digest_key` becomes a member of the open
    digest of that key, which is due at `due_at`.
    """

    id: DeliveryId
    channel: Channel
    user_id: str | None = None
    address: str | None = None
    lane: str = FAN_OUT
    state: State
    reason: Reason | None = None
    due_at: datetime
    held_by: str | None = None
    ordering_key: str | None = None
    collapse_key: str | None = None
    digest_key: str | None = None
    fallback_for: Channel | None = None


class Conditions(msgspec.Struct, frozen=True, kw_only=True):
    """What applies to all deliveries of a notification.

    `providers` are those configured for each channel, `off` the channels that are switched off for its type,
    `channels` those that its type uses for its kind of audience (None: all); `digest_group` separates digests
    besides the recipient and the channel.
    """

    providers: Mapping[str, Sequence[str]]
    channels: Sequence[str] | None = None
    off: AbstractSet[str] = frozenset()
    due_at: datetime
    now: datetime
    collapse_key: str | None = None
    digest_group: str | None = None


def due_time(send_at: datetime | None, send_at_local: datetime | None, now: datetime) -> datetime:
    """Return when a notification is due at the earliest.

    A wall time comes first in the zone furthest ahead; each person's own zone is applied then.
    """
    if send_at_local is not None:
        return max(send_at_local.replace(tzinfo=UTC) - FURTHEST_AHEAD, now)
    return max(send_at, now) if send_at else now


def plan(
    notification_type: NotificationType,
    recipients: Iterable[Recipient],
    *,
    conditions: Conditions,
) -> list[PlannedDelivery]:
    """Plan one delivery for each recipient and channel; one that cannot be sent has the reason."""
    return list(iter_plan(notification_type, recipients, conditions=conditions))


def iter_plan(
    notification_type: NotificationType, recipients: Iterable[Recipient], *, conditions: Conditions
) -> Iterator[PlannedDelivery]:
    """Plan the same deliveries one by one, for a caller that has other work between them."""
    channel_plan = ChannelPlan(notification_type, conditions)
    for recipient in recipients:
        yield from channel_plan.deliveries(recipient)


class ChannelPlan:
    """Plans deliveries of a type under the same conditions, for any number of recipients.

    By which channels, lanes and at what time depends on the kind of a recipient alone: it is decided once for
    each kind, and not for each person.
    """

    def __init__(self, notification_type: NotificationType, conditions: Conditions) -> None:
        self._type = notification_type
        self._conditions = conditions
        policies, group = notification_type.policies, conditions.digest_group
        self.due_at = conditions.due_at
        self._is_keyed = policies.ordered or conditions.collapse_key is not None or group is not None
        self._by_kind: dict[type[Recipient], tuple[PlannedDelivery, ...]] = {}

    def deliveries(self, recipient: Recipient) -> Sequence[PlannedDelivery]:
        """Plan the deliveries to a recipient."""
        if isinstance(recipient, UserRecipient):
            return self.user_deliveries(recipient.user_id)
        address = address_of(recipient)
        planned = [replace(each, id=new_delivery_id(), address=address) for each in self._of_kind(recipient)]
        return [self._keyed(each, recipient) for each in planned] if self._is_keyed else planned

    def user_deliveries(self, user_id: str) -> Sequence[PlannedDelivery]:
        """Plan the deliveries to a person."""
        parts = self._by_kind.get(UserRecipient) or self._of_kind(UserRecipient(user_id))
        planned = []
        # Most types have few channels: a comprehension, which is a call, would take a fifth longer.
        for each in parts:
            planned.append(replace(each, id=new_delivery_id(), user_id=user_id))  # noqa: PERF401
        return [self._keyed(each, UserRecipient(user_id)) for each in planned] if self._is_keyed else planned

    def _of_kind(self, recipient: Recipient) -> tuple[PlannedDelivery, ...]:
        """Return what the deliveries to all recipients of a kind have in common."""
        kind = type(recipient)
        if kind not in self._by_kind:
            is_placeholder = isinstance(recipient, ConfigRecipient)
            channels = CONFIG_CHANNELS if is_placeholder else self._type.channels
            self._by_kind[kind] = tuple(self._common(recipient, channel) for channel in channels)
        return self._by_kind[kind]

    def _common(self, recipient: Recipient, channel: Channel) -> PlannedDelivery:
        conditions, failover = self._conditions, self._type.policies.failover
        reason = _obstacle(recipient, channel, conditions)
        due_at, fallback_for = conditions.due_at, None
        # Whom no push can reach from the start is not kept waiting for one.
        if failover and channel == failover.to and not (reason or _obstacle(recipient, _FAILING, conditions)):
            due_at, fallback_for = due_at + failover.after, _FAILING
        waiting = State.SCHEDULED if due_at > conditions.now else State.PENDING
        return PlannedDelivery(
            id=_NO_DELIVERY,
            channel=channel,
            lane=_lane(recipient, channel, conditions.providers.get(channel, ())),
            state=State.SKIPPED if reason else waiting,
            reason=reason,
            due_at=due_at,
            held_by=DIGEST if conditions.digest_group is not None and reason is None else None,
            fallback_for=fallback_for,
        )

    def _keyed(self, delivery: PlannedDelivery, recipient: Recipient) -> PlannedDelivery:
        """Return a delivery with the keys of its recipient and channel: of order, replacement and digest."""
        name, policies, conditions = self._type.name, self._type.policies, self._conditions
        slot, collapse_key = route_id(delivery.channel, recipient), conditions.collapse_key
        in_digest = delivery.held_by == DIGEST
        return replace(
            delivery,
            ordering_key=f"{slot}:{policies.ordering_group or name}" if policies.ordered else None,
            collapse_key=f"{slot}:{collapse_key}:{name}" if collapse_key else None,
            digest_key=f"{slot}:{conditions.digest_group}" if in_digest else None,
        )


def _lane(recipient: Recipient, channel: Channel, providers: Sequence[str]) -> str:
    """Return the provider that takes a delivery; which of several takes a push depends on the devices."""
    if isinstance(recipient, _TOPICS):
        return TOPIC_PROVIDER if TOPIC_PROVIDER in providers else FAN_OUT
    if channel == "push" and len(providers) > 1:
        return GATEWAY_STREAM if GATEWAY_STREAM in providers else FAN_OUT
    return providers[0] if providers else FAN_OUT


def _obstacle(recipient: Recipient, channel: Channel, conditions: Conditions) -> Reason | None:
    if isinstance(recipient, ConfigRecipient):
        return Reason.NO_ADMINS_CONFIGURED
    if conditions.channels is not None and channel not in conditions.channels:
        return Reason.CHANNEL_NOT_FOR_AUDIENCE
    match recipient:
        case UserRecipient():
            reaches = True
        case EmailRecipient():
            reaches = channel == "email"
        case TopicRecipient() | ConditionRecipient():
            reaches = channel == "push"
        case _:
            assert_never(recipient)
    if not reaches:
        return Reason.CHANNEL_NOT_FOR_RECIPIENT
    if channel in conditions.off:
        return Reason.TOGGLE_OFF
    return None if conditions.providers.get(channel) else Reason.CHANNEL_UNAVAILABLE
