"""Receipts of devices, and the rates that follow from them."""

from datetime import datetime
from typing import Annotated
from uuid import UUID

import msgspec
from msgspec import Meta

from tocsin.domain.delivery.receipts import ReceiptEvent
from tocsin.wire.values.open_values import documented

MOST_RECEIPTS = 100
_STATUSES = documented(("recorded", "known", "not_found"))


class Receipt(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a device reports of a delivery; what was opened or dismissed was delivered."""

    delivery_id: UUID
    event: ReceiptEvent


ReceiptList = Annotated[list[Receipt], Meta(min_length=1, max_length=MOST_RECEIPTS)]


class SignedReceipt(Receipt, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A receipt of a device without a login; the token came with the push."""

    receipt_token: Annotated[str, Meta(max_length=64)]


class ReceiptResult(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a receipt: it was `recorded`, was `known`, or the person has no such sent delivery."""

    delivery_id: UUID
    event: ReceiptEvent
    status: Annotated[str, _STATUSES]


class ReceiptResults(msgspec.Struct, frozen=True, kw_only=True):
    """The result of each receipt, in order."""

    results: list[ReceiptResult]


class Rates(msgspec.Struct, frozen=True, kw_only=True):
    """What devices reported of the deliveries of a type by a channel; the rates are shares of those sent."""

    type: str
    channel: str
    sent: int
    delivered: int
    opened: int
    dismissed: int
    delivery_rate: float | None
    open_rate: float | None


class ReceiptRates(msgspec.Struct, frozen=True, kw_only=True):
    """The rates of deliveries that were sent on the days from one to another, in UTC."""

    from_: datetime = msgspec.field(name="from")
    to: datetime
    rates: list[Rates]
