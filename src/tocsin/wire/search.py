"""What a search finds."""

from datetime import datetime
from typing import Annotated
from uuid import UUID

import msgspec

from tocsin.wire.notifications import NotificationSummary
from tocsin.wire.values.open_values import STATES, STATUSES


class FoundDelivery(msgspec.Struct, frozen=True, kw_only=True):
    """A delivery that matches: its state, the reason for it, and a hint what to do about an error.

    `waiting_for` is why it is not sent yet, `due_at` when it is decided next: for a member of the digest
    `digest_id` when that is due, for a `send_at_local` when the person's clock shows it. `status` is the
    state in the words of producers that hand in intents by a stream; null if they have none for it.
    """

    delivery_id: UUID
    route_id: str = ""
    channel: str
    recipient: str
    device_id: UUID | None
    state: Annotated[str, STATES]
    status: Annotated[str, STATUSES] | None = None
    reason: str | None
    code: str | None
    provider: str | None
    attempt_count: int
    held_by: str | None
    waiting_for: str | None
    due_at: datetime | None
    settled_at: datetime | None
    hint: str | None
    digest_id: UUID | None = None


MOST_COUNTED = 1_000
"""Deliveries of a notification that are counted at most."""


class FoundNotification(NotificationSummary, frozen=True, kw_only=True):
    """A notification with those of its deliveries that match.

    `truncated` if more of them match than are listed. `delivery_count` is how many it has at all; counting
    ends at 1,000. What was `pruned_at` a time has no deliveries any more, and only its key is kept.
    """

    pruned_at: datetime | None = None
    deliveries: list[FoundDelivery]
    truncated: bool
    delivery_count: int


class SearchPage(msgspec.Struct, frozen=True, kw_only=True):
    """Notifications that match, newest first; `next_cursor` is the `cursor` of the following page.

    A search for what is rare ends after a while: then a page has few items or none, and `searched_to` is how
    far back it is complete. The following page continues there.
    """

    items: list[FoundNotification]
    next_cursor: UUID | None
    searched_to: datetime | None = None
