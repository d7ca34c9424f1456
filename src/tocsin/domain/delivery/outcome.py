"""The outcome of an attempt: a closed union, never a boolean, never an exception."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Literal

import msgspec


class InboxContent(msgspec.Struct, frozen=True, kw_only=True):
    """What an item of a person's inbox shows; texts are plain, never HTML."""

    title: str
    body: str
    link: str | None
    icon: str | None
    data: Mapping[str, str]


class Sent(msgspec.Struct, frozen=True, tag="sent"):
    """The provider accepted the message.

    That of the inbox is Tocsin itself: the `item` is stored by the settlement that marks it as sent.
    """

    message_id: str | None = None
    item: InboxContent | None = None


class Retry(msgspec.Struct, frozen=True, tag="retry"):
    """A temporary failure: the attempt is spent and the next is scheduled.

    `speaks_against` is what failed. Failures of the provider count toward its circuit breaker; a slow or
    busy device or address does not. With `uncertain` the message may have been accepted all the same: every
    such attempt is spent, also that of a probe, so that nobody gets it without end.
    """

    code: str
    detail: str = ""
    after: timedelta | None = None
    speaks_against: Literal["provider", "target"] = "provider"
    uncertain: bool = False


class Defer(msgspec.Struct, frozen=True, tag="defer"):
    """The message has to wait for a reason other than itself, such as a quota: no attempt is spent.

    With `pauses` the whole provider pauses, not this device alone; with `alarm` an operator has to act.
    Without `pauses` a delivery is deferred for a day at most; then it spends attempts, as with Retry.
    """

    code: str
    after: timedelta
    detail: str = ""
    pauses: bool = True
    alarm: bool = False


class Rejected(msgspec.Struct, frozen=True, tag="rejected"):
    """Refused for good. With `quarantine` the device is not used any more: it belongs to another sender.

    With `alarm` an operator has to act.
    """

    code: str
    detail: str = ""
    quarantine: bool = False
    alarm: bool = False


class Gone(msgspec.Struct, frozen=True, tag="gone"):
    """The device no longer exists and is retired in the transaction that settles the delivery.

    `since` is when the provider learned of it, if known: a device that registered again later is kept.
    """

    code: str
    detail: str = ""
    since: datetime | None = None


class Delivered(msgspec.Struct, frozen=True, tag="delivered"):
    """A receipt: the message reached the push service of the device."""


class NotYet(msgspec.Struct, frozen=True, tag="not_yet"):
    """No receipt is available yet."""


Outcome = Sent | Retry | Defer | Rejected | Gone
ReceiptOutcome = Delivered | NotYet | Retry | Defer | Rejected | Gone
