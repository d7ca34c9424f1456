"""Rotating the secret of a webhook endpoint, and the bodies that the command line shares."""

from datetime import datetime, timedelta
from typing import Annotated
from uuid import UUID

import msgspec
from msgspec import Meta

from tocsin.api.http.conversion import copy_fields
from tocsin.providers.webhook.signing import LONGEST_OVERLAP, new_secret, rotated
from tocsin.store.people.endpoints import webhook as endpoints
from tocsin.store.pool import Pool
from tocsin.store.secrets.sealing import DataKeys


class WebhookWithSecret(msgspec.Struct, frozen=True, kw_only=True):
    """An endpoint and its signing secret, which is shown this once."""

    endpoint_id: UUID
    user_id: str
    url: str
    secret: str
    registered_at: datetime

    def __repr__(self) -> str:
        """Show the endpoint without its secret."""
        return f"WebhookWithSecret({self.endpoint_id})"


class RotateWebhook(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long messages are signed with the old secret too; 0 ends it at once."""

    overlap_seconds: Annotated[int, Meta(ge=0, le=int(LONGEST_OVERLAP.total_seconds()))] = 86_400


class Webhook(msgspec.Struct, frozen=True, kw_only=True):
    """An endpoint."""

    endpoint_id: UUID
    user_id: str
    url: str
    notification_count: int
    last_sent_at: datetime | None
    registered_at: datetime
    retired_at: datetime | None
    retired_reason: str | None


class WebhookList(msgspec.Struct, frozen=True):
    """The endpoints of a user, the active first."""

    webhooks: list[Webhook]


async def rotate_secret(
    pool: Pool,
    user_id: str,
    endpoint_id: UUID,
    overlap: timedelta,
    now: datetime,
    *,
    actor: str,
    keys: DataKeys,
) -> WebhookWithSecret | None:
    """Replace the secret of an active endpoint; the old one signs too until the overlap ends.

    Raise SealedError if the present secret is encrypted with a key that is not among `keys`.
    """
    secret = new_secret()
    row = await endpoints.change_secret(
        pool,
        user_id,
        endpoint_id,
        lambda present: rotated(present, secret, now, overlap),
        actor=actor,
        details={"overlap_seconds": overlap.total_seconds()},
        keys=keys,
    )
    return copy_fields(WebhookWithSecret, row, endpoint_id=row.id, secret=secret) if row else None
