"""Why a delivery was not sent: every silence has a reason."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Literal, TypeAlias

# The rules that decide on a delivery, in no particular order.
Rule: TypeAlias = Literal[
    "cancelled",
    "type",
    "time_to_live",
    "collapse_key",
    "preference",
    "toggle",
    "failover",
    "order",
    "local_time",
    "quiet_hours",
    "limit",
    "digest",
    "device",
    "provider",
    "replay",
]


class Reason(StrEnum):
    """The reason of a `skipped` delivery, or of one that was cancelled without its producer."""

    CHANNEL_UNAVAILABLE = "channel_unavailable"
    CHANNEL_NOT_FOR_RECIPIENT = "channel_not_for_recipient"
    CHANNEL_NOT_FOR_AUDIENCE = "channel_not_for_audience"
    NO_ADMINS_CONFIGURED = "no_admins_configured"
    NO_DEVICE = "no_device"
    NO_ADDRESS = "no_address"
    NO_ENDPOINT = "no_endpoint"
    ADDRESS_SUPPRESSED = "address_suppressed"
    FAILOVER_NOT_NEEDED = "failover_not_needed"
    SUPERSEDED_BY_FAILOVER = "superseded_by_failover"
    CANCELLED_BY_OPERATOR = "cancelled_by_operator"
    DEVICE_LOST = "device_lost"
    PROVIDER_UNAVAILABLE = "provider_unavailable"
    TOGGLE_OFF = "toggle_off"
    OPTED_OUT = "opted_out"
    COLLAPSED = "collapsed"
    DAILY_LIMIT = "daily_limit"
    THROTTLED = "throttled"
    ERASED = "erased"


MEANING: Mapping[Reason, str] = {
    Reason.CHANNEL_UNAVAILABLE: "no provider for this channel is set up",
    Reason.CHANNEL_NOT_FOR_RECIPIENT: "this channel cannot reach a recipient of this kind",
    Reason.CHANNEL_NOT_FOR_AUDIENCE: "the type does not use this channel for an audience of this kind",
    Reason.NO_ADMINS_CONFIGURED: "the settings name no administrators for this type",
    Reason.NO_DEVICE: "the person had no device that takes pushes when it was due",
    Reason.NO_ADDRESS: "no mail address of the person was known when it was due",
    Reason.NO_ENDPOINT: "the person had no webhook endpoint when it was due",
    Reason.ADDRESS_SUPPRESSED: "the address is suppressed: mail to it came back, or an operator said so",
    Reason.FAILOVER_NOT_NEEDED: "the channel it stands in for had reached the person",
    Reason.SUPERSEDED_BY_FAILOVER: "the fallback for it was sent while it waited, so it was cancelled",
    Reason.CANCELLED_BY_OPERATOR: "an operator cancelled it by query, or discarded what a toggle held",
    Reason.DEVICE_LOST: "the device was retired without a successor, or consent withdrawn, while it waited",
    Reason.PROVIDER_UNAVAILABLE: "the device's provider is not set up",
    Reason.TOGGLE_OFF: "the type or the channel was switched off when it was accepted",
    Reason.OPTED_OUT: "the person does not want this category by this channel",
    Reason.COLLAPSED: "a newer notification with the same collapse key took its place",
    Reason.DAILY_LIMIT: "the person or the device has had enough for their day",
    Reason.THROTTLED: "the person has had enough of this type for now",
    Reason.ERASED: "the data of the person was erased while it waited, so it was cancelled",
}
