"""What is tried: one delivery under lease, at one device, and the way it came to that."""

from collections.abc import Mapping
from datetime import datetime
from typing import Self
from uuid import UUID

import msgspec

from tocsin.domain.catalog import Channel, NotificationType
from tocsin.domain.decide import Step
from tocsin.domain.delivery.message import Message
from tocsin.domain.ids import LeaseId
from tocsin.domain.people.recipient import recipient_of, route_id
from tocsin.store.deliveries.claim import ClaimedDelivery, ReachedDevice

_encoder = msgspec.json.Encoder()


class Aim(msgspec.Struct, frozen=True, kw_only=True):
    """A delivery as far as settling it is concerned.

    `reserved` tells that it has its place within the limits, which it keeps through its retries.
    """

    id: UUID
    lease: LeaseId
    channel: Channel
    attempts: int
    device_id: UUID | None
    provider: str | None
    reserved: bool
    steps: tuple[Step, ...]
    last_seen_at: datetime | None = None
    names: ClaimedDelivery | None = None

    @property
    def decisions(self) -> str | None:
        """Give the steps that led here as JSON."""
        return _encoder.encode(self.steps).decode() if self.steps else None

    def after(self, step: Step) -> Self:
        """Add the step that came next."""
        return msgspec.structs.replace(self, steps=(*self.steps, step))


class Ready(msgspec.Struct, frozen=True):
    """A message that may leave."""

    aim: Aim
    kind: NotificationType
    message: Message


def aim_at(
    claimed: ClaimedDelivery,
    lease: LeaseId,
    steps: tuple[Step, ...],
    device: ReachedDevice | None = None,
    sibling_id: UUID | None = None,
    *,
    counted: bool = False,
) -> Aim:
    """Aim a claimed delivery, or a sibling of it, at a device; `counted` within its limits just now."""
    return Aim(
        id=sibling_id or claimed.id,
        lease=lease,
        channel=claimed.channel,
        attempts=0 if sibling_id else claimed.attempts,
        device_id=device.id if device else None,
        provider=device.provider if device else None,
        reserved=counted or claimed.reserved,
        steps=steps,
        last_seen_at=device.last_seen_at if device else None,
        names=claimed,
    )


def log_names(aim: Aim) -> Mapping[str, object]:
    """Give the fields by which every log line names a delivery."""
    claimed = aim.names
    if claimed is None:
        return {"delivery_id": str(aim.id), "channel": aim.channel}
    recipient = recipient_of(claimed.user_id, claimed.address, claimed.type)
    return {
        "notification_id": str(claimed.notification_id),
        "type": claimed.type,
        "producer": claimed.producer,
        "delivery_id": str(aim.id),
        "route_id": route_id(claimed.channel, recipient),
        "channel": claimed.channel,
        "request_id": claimed.request_id,
        "trace_id": claimed.trace_id,
    }
