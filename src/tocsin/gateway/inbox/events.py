"""What happens in an inbox, as its sessions get it."""

from datetime import datetime
from typing import Literal, TypeAlias
from uuid import UUID

import msgspec

from tocsin.gateway.events import ClientEvent
from tocsin.store.inbox.items import Counts
from tocsin.wire.person.inbox import InboxItem
from tocsin.wire.streams.entry_ids import EntryId

STUB_SIZE = 200
"""About the bytes that an event without content takes in the history."""

_encoder = msgspec.json.Encoder()


class ItemEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An item is new or changed; the counts are those of the inbox by then."""

    id: str
    event: Literal["item.created", "item.changed"]
    item: InboxItem
    unread: int
    unseen: int


class ItemsEvent(msgspec.Struct, frozen=True, kw_only=True):
    """All items up to one, of a category or of any, were seen or read at a time."""

    id: str
    event: Literal["items.changed"] = "items.changed"
    change: Literal["seen", "read"]
    up_to: UUID
    category: str | None
    at: datetime | None
    unread: int
    unseen: int


InboxBody: TypeAlias = ItemEvent | ItemsEvent


class InboxEvent(ClientEvent):
    """An event of a person's inbox, encoded once for all their sessions."""

    def __init__(self, entry_id: EntryId, user_id: str, body: InboxBody) -> None:
        self._body = _encoder.encode(body)
        super().__init__(entry_id, user_id, len(self._body))

    @property
    def body(self) -> bytes:
        """The event as JSON."""
        return self._body


class UnreadEvent(ClientEvent):
    """An event of somebody without a session: nobody read what it is about."""

    is_known = False

    def __init__(self, entry_id: EntryId, user_id: str) -> None:
        super().__init__(entry_id, user_id, STUB_SIZE)

    @property
    def body(self) -> bytes:
        """Nothing is sent of it."""
        return b"{}"


def item_event(
    entry_id: EntryId, kind: Literal["created", "changed"], item: InboxItem, counts: Counts
) -> ItemEvent:
    """Build the event of one item."""
    name: Literal["item.created", "item.changed"] = "item.created" if kind == "created" else "item.changed"
    return ItemEvent(id=str(entry_id), event=name, item=item, unread=counts.unread, unseen=counts.unseen)
