"""What an attempt came to: a closed union, never a boolean, never an exception."""

from datetime import datetime, timedelta
from typing import Literal

import msgspec


class Sent(msgspec.Struct, frozen=True, tag="sent"):
    """The provider took the message."""

    message_id: str | None = None


class Retry(msgspec.Struct, frozen=True, tag="retry"):
    """A passing fault: the attempt is spent and the next is planned.

    `speaks_against` tells what the fault lies with: a provider whose faults pile up is left alone for
    a while, one device or address that is slow or busy is not held against it.
    """

    code: str
    detail: str = ""
    after: timedelta | None = None
    speaks_against: Literal["provider", "target"] = "provider"


class Defer(msgspec.Struct, frozen=True, tag="defer"):
    """Not now, through no fault of the message: no attempt is spent.

    `pauses` tells that the whole provider has to rest, not this device alone;
    `alarm` that an operator has to act before it can go on.
    """

    code: str
    after: timedelta
    detail: str = ""
    pauses: bool = True
    alarm: bool = False


class Rejected(msgspec.Struct, frozen=True, tag="rejected"):
    """Refused for good. `quarantine` sets the device aside: it belongs to another sender."""

    code: str
    detail: str = ""
    quarantine: bool = False


class Gone(msgspec.Struct, frozen=True, tag="gone"):
    """The device no longer exists and is retired with this settlement.

    `since` is when the provider learned of it, if it says so: a device that registered again later stays.
    """

    code: str
    detail: str = ""
    since: datetime | None = None


class Delivered(msgspec.Struct, frozen=True, tag="delivered"):
    """A receipt: the message was handed to the device's own service."""


class NotYet(msgspec.Struct, frozen=True, tag="not_yet"):
    """No receipt yet: ask again."""


Outcome = Sent | Retry | Defer | Rejected | Gone
ReceiptOutcome = Delivered | NotYet | Retry | Defer | Rejected | Gone
