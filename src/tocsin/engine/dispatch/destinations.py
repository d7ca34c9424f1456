"""What a delivery can be sent to at this moment, channel by channel."""

from typing import assert_never

from tocsin.domain.delivery.reasons import Reason
from tocsin.domain.people.recipient import Broadcast, ConditionRecipient, TopicRecipient, broadcast_at
from tocsin.store.deliveries.claim import ClaimedDelivery, ReachedDevice

MAIL = "smtp"
BROADCAST = "fcm"


def reachable(claimed: ClaimedDelivery) -> tuple[ReachedDevice, ...] | Reason:
    """Give everything a delivery can go to, or why there is nothing."""
    match claimed.channel:
        case "email":
            return _mailbox(claimed)
        case "webhook":
            lost = Reason.DEVICE_LOST if claimed.device_id else Reason.NO_ENDPOINT
            return claimed.devices or lost
        case _ if (broadcast := broadcast_at(claimed.address)) is not None:
            return (_followers(broadcast),)
        case _:
            lost = Reason.DEVICE_LOST if claimed.device_id else Reason.NO_DEVICE
            return claimed.devices or lost


def _mailbox(claimed: ClaimedDelivery) -> tuple[ReachedDevice, ...] | Reason:
    if claimed.mailbox is None:
        return Reason.NO_ADDRESS
    if claimed.suppressed:
        return Reason.ADDRESS_SUPPRESSED
    return (ReachedDevice(None, claimed.mailbox, MAIL, "email"),)


def _followers(broadcast: Broadcast) -> ReachedDevice:
    match broadcast:
        case TopicRecipient(topic=topic):
            return ReachedDevice(None, topic, BROADCAST, "topic", token_kind="topic")  # noqa: S106 - no secret
        case ConditionRecipient(condition=condition):
            return ReachedDevice(None, condition, BROADCAST, "topic", token_kind="condition")  # noqa: S106 - no secret
        case _:
            assert_never(broadcast)
