"""Receipts of devices: what they report, and the token with which one may report without a login."""

import hashlib
import hmac
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from typing import Annotated, Literal, TypeAlias
from uuid import UUID

import msgspec
from msgspec import Meta

from tocsin.domain.faults import Fault

ReceiptEvent: TypeAlias = Literal["delivered", "opened", "dismissed"]

SHORTEST_SECRET = 32
TOKEN_FIELD = "receipt_token"  # noqa: S105 - the name of a field
_TOKEN_BYTES = 16
_PURPOSE = b"tocsin receipt 1\x00"


class ReceiptSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The secret that signs the receipt tokens in pushes, and how many receipts a minute a person may send.

    Without a secret pushes have no token, and receipts need the token of a login.
    """

    secret: str | None = None
    per_minute: Annotated[int, Meta(ge=1, le=100_000)] = 300

    def __repr__(self) -> str:
        """Show whether a secret is set, not its value."""
        return (
            f"ReceiptSettings(secret=<{'set' if self.secret else 'not set'}>, per_minute={self.per_minute})"
        )


def receipt_settings_faults(settings: ReceiptSettings) -> Iterator[Fault]:
    """List a secret that can be guessed."""
    if settings.secret is not None and len(settings.secret.encode()) < SHORTEST_SECRET:
        message = f"must be at least {SHORTEST_SECRET} bytes, or receipts can be forged by guessing it"
        yield Fault(field="receipts.secret", code="too_short", message=message)


def receipt_token(secret: str, delivery_id: UUID) -> str:
    """Return the token that allows to report one delivery: 22 characters."""
    signature = hmac.digest(secret.encode(), _PURPOSE + delivery_id.bytes, hashlib.sha256)
    return urlsafe_b64encode(signature[:_TOKEN_BYTES]).rstrip(b"=").decode()


def is_receipt_token(secret: str, delivery_id: UUID, token: str) -> bool:
    """Return whether a token is the one of a delivery, in a time that does not depend on it."""
    return hmac.compare_digest(receipt_token(secret, delivery_id).encode(), token.encode(errors="replace"))


def implied_events(event: ReceiptEvent) -> tuple[ReceiptEvent, ...]:
    """Return what an event means: what was opened or dismissed was delivered."""
    return ("delivered",) if event == "delivered" else ("delivered", event)
