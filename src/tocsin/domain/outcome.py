"""What an attempt came to: a closed union, never a boolean, never an exception."""

from datetime import timedelta

import msgspec


class Sent(msgspec.Struct, frozen=True, tag="sent"):
    """The provider took the message."""

    message_id: str | None = None


class Retry(msgspec.Struct, frozen=True, tag="retry"):
    """A passing fault: the attempt is spent and the next is planned."""

    code: str
    detail: str = ""
    after: timedelta | None = None


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
    """The device no longer exists and is retired with this settlement."""

    code: str
    detail: str = ""


Outcome = Sent | Retry | Defer | Rejected | Gone
