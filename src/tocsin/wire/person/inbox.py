"""A person's inbox: its items, how many of them are new, and what the person does with them."""

from datetime import datetime
from typing import Annotated
from uuid import UUID

import msgspec
from msgspec import Meta

CategoryName = Annotated[str, Meta(min_length=1, max_length=64, pattern=r"^[a-z][a-zA-Z0-9_-]*\Z")]


class InboxItem(msgspec.Struct, frozen=True, kw_only=True):
    """An item; its texts are plain, never HTML."""

    id: UUID
    type: str
    category: str
    title: str
    body: str
    link: str | None
    icon: str | None
    data: dict[str, str]
    created_at: datetime
    seen_at: datetime | None
    read_at: datetime | None
    archived_at: datetime | None


class InboxCounts(msgspec.Struct, frozen=True, kw_only=True):
    """How many items are unread and unseen; counting ends at 100, then there may be more.

    Archived items do not count.
    """

    unread: int
    unseen: int


class InboxPage(InboxCounts, frozen=True, kw_only=True):
    """Items, newest first; `next_cursor` is the `cursor` of the following page.

    `unread` and `unseen` count the whole inbox, up to 100.
    """

    items: list[InboxItem]
    next_cursor: UUID | None


class ChangedItem(InboxCounts, frozen=True, kw_only=True):
    """An item after a change, and the counts of the inbox after it."""

    item: InboxItem


class SeenItems(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Which items the person has seen: all up to an id, or all there are."""

    up_to: UUID | None = None


class ReadItems(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Which items the person has read: all up to an id, or all there are, of one category or of any."""

    up_to: UUID | None = None
    category: CategoryName | None = None
