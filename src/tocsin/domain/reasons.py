"""Why a delivery was not sent: every silence has a reason."""

from collections.abc import Mapping
from enum import StrEnum


class Reason(StrEnum):
    """The reason of a `skipped` delivery."""

    CHANNEL_UNAVAILABLE = "channel_unavailable"
    CHANNEL_NOT_FOR_RECIPIENT = "channel_not_for_recipient"
    NO_ADMINS_CONFIGURED = "no_admins_configured"
    NO_DEVICE = "no_device"
    DEVICE_LOST = "device_lost"
    PROVIDER_UNAVAILABLE = "provider_unavailable"


MEANING: Mapping[Reason, str] = {
    Reason.CHANNEL_UNAVAILABLE: "no provider for this channel is set up",
    Reason.CHANNEL_NOT_FOR_RECIPIENT: "this channel cannot reach a recipient of this kind",
    Reason.NO_ADMINS_CONFIGURED: "the settings name no administrators for this type",
    Reason.NO_DEVICE: "the person had no device that takes pushes when it was due",
    Reason.DEVICE_LOST: "the device was retired or its consent withdrawn before the next attempt",
    Reason.PROVIDER_UNAVAILABLE: "the device's provider is not set up",
}
