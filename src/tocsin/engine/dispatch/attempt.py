"""One try to hand a delivery to its provider, from the claim to its settlement."""

from collections.abc import Mapping
from datetime import datetime
from uuid import UUID

import msgspec

from tocsin.domain.catalog import Channel, NotificationType, Payload
from tocsin.domain.decide import Step
from tocsin.domain.delivery.message import Message
from tocsin.domain.ids import DeliveryId, LeaseId, NotificationId
from tocsin.domain.limits import Allowance
from tocsin.domain.people.profile import Destination
from tocsin.domain.people.recipient import logged_route_id, recipient_of
from tocsin.store.deliveries.claim import ClaimedDelivery
from tocsin.store.deliveries.context import Deferral


class LeasedDelivery(msgspec.Struct, kw_only=True):
    """A delivery under lease, as far as settling it is concerned.

    `reserved` means that it has its place within the limits, which it keeps through its retries; `recovering`
    that its attempts are used up by faults of its provider; `deferral` is since when it is deferred; `plain`
    that nothing follows from its being sent.
    """

    id: DeliveryId
    lease: LeaseId
    channel: Channel
    attempts: int
    retrying: bool
    reserved: bool
    recovering: bool = False
    deferral: Deferral | None = None
    digest_id: UUID | None = None
    type: NotificationType | None = None
    destination: Destination | None = None
    steps: tuple[Step, ...] = ()
    tried_at: datetime | None = None
    expires_at: datetime | None = None
    plain: bool = False

    def add_step(self, step: Step) -> None:
        """Record the decision that came next."""
        self.steps = (*self.steps, step)

    def log_fields(self) -> Mapping[str, object]:
        """Return the fields by which every log line names a delivery."""
        return {"delivery_id": str(self.id), "channel": self.channel}


class Attempt(LeasedDelivery, kw_only=True):
    """A claimed delivery, or its sibling for another device, with what is known about it so far.

    `notification_id` is that of the newest member where a digest is sent. The rules set `type`, `payload`,
    `steps`, `destinations`, `allowances`, `limited` and `expires_at`; the lane or fan-out sets `destination`,
    rendering `message`, the sender `circuit` and `tried_at`.
    """

    delivery: ClaimedDelivery
    claimed_at: datetime
    notification_id: NotificationId | None
    payload: Payload = {}
    destinations: tuple[Destination, ...] = ()
    allowances: tuple[Allowance, ...] = ()
    limited: bool = False
    message: Message | None = None
    circuit: str = ""
    probe: bool = False

    @classmethod
    def of(cls, delivery: ClaimedDelivery, lease: LeaseId, claimed_at: datetime) -> "Attempt":
        """Begin the attempt of a claimed delivery."""
        return cls(
            delivery=delivery,
            id=delivery.id,
            notification_id=delivery.notification_id,
            lease=lease,
            channel=delivery.channel,
            claimed_at=claimed_at,
            attempts=delivery.attempts,
            plain=not (
                delivery.digest_id or delivery.collapse_key is not None or delivery.fallback_for is not None
            ),
            retrying=delivery.retrying,
            reserved=delivery.reserved,
            recovering=delivery.recovering,
            deferral=delivery.deferral,
            digest_id=delivery.digest_id,
        )

    @property
    def rendered(self) -> Message:
        """The message; an attempt is rendered before it is sent."""
        if self.message is None:
            raise RuntimeError("an attempt is sent before it is rendered")
        return self.message

    def sibling(self, sibling_id: DeliveryId, destination: Destination) -> "Attempt":
        """Return the same attempt for another device, as a delivery of its own."""
        return msgspec.structs.replace(self, id=sibling_id, attempts=0, destination=destination)

    def log_fields(self) -> Mapping[str, object]:
        """Return the fields by which every log line names a delivery."""
        delivery = self.delivery
        recipient = recipient_of(delivery.user_id, delivery.address, delivery.type)
        return {
            "notification_id": str(delivery.notification_id) if delivery.notification_id else None,
            "digest_id": str(delivery.digest_id) if delivery.digest_id else None,
            "type": delivery.type,
            "producer": delivery.producer or None,
            "delivery_id": str(self.id),
            "route_id": logged_route_id(delivery.channel, recipient),
            "channel": delivery.channel,
            "request_id": delivery.request_id,
            "trace_id": delivery.trace_id,
        }
