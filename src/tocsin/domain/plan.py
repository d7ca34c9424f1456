"""Deciding which deliveries a notification becomes."""

from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from datetime import datetime
from typing import assert_never

import msgspec

from tocsin.domain.catalog import Channel, NotificationType
from tocsin.domain.delivery import State
from tocsin.domain.ids import DeliveryId, new_delivery_id
from tocsin.domain.reasons import Reason
from tocsin.domain.recipient import ConfigRecipient, EmailRecipient, Recipient, UserRecipient


class PlannedDelivery(msgspec.Struct, frozen=True, kw_only=True):
    """A delivery before it has a row."""

    id: DeliveryId
    channel: str
    user_id: str | None = None
    address: str | None = None
    state: State
    reason: Reason | None = None
    due_at: datetime


def plan(
    kind: NotificationType,
    recipients: Iterable[Recipient],
    *,
    available: AbstractSet[str],
    send_at: datetime | None,
    now: datetime,
) -> list[PlannedDelivery]:
    """Give every recipient one delivery by each channel of the type, if only to say why not."""
    due_at = max(send_at, now) if send_at else now
    waiting = State.SCHEDULED if due_at > now else State.PENDING
    return [
        delivery
        for recipient in recipients
        for delivery in _for_recipient(kind, recipient, available, waiting, due_at)
    ]


def _for_recipient(
    kind: NotificationType,
    recipient: Recipient,
    available: AbstractSet[str],
    waiting: State,
    due_at: datetime,
) -> Iterator[PlannedDelivery]:
    for channel in kind.channels:
        reason = _obstacle(recipient, channel, available)
        yield PlannedDelivery(
            id=new_delivery_id(),
            channel=channel,
            user_id=recipient.user_id if isinstance(recipient, UserRecipient) else None,
            address=recipient.address if isinstance(recipient, EmailRecipient) else None,
            state=State.SKIPPED if reason else waiting,
            reason=reason,
            due_at=due_at,
        )


def _obstacle(recipient: Recipient, channel: Channel, available: AbstractSet[str]) -> Reason | None:
    match recipient:
        case ConfigRecipient():
            return Reason.NO_ADMINS_CONFIGURED
        case EmailRecipient():
            reaches = channel == "email"
        case UserRecipient():
            reaches = True
        case _:
            assert_never(recipient)
    if not reaches:
        return Reason.CHANNEL_NOT_FOR_RECIPIENT
    return None if channel in available else Reason.CHANNEL_UNAVAILABLE
