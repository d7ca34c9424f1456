"""A person's inbox: list its items, and record what the person did with them."""

from typing import Annotated
from uuid import UUID

from msgspec import Meta

from tocsin.api.http.problems import NOT_FOUND, ProblemError
from tocsin.api.http.queries import Query
from tocsin.api.http.requests import ApiRequest
from tocsin.api.routes import PERSON, Routes, Tag
from tocsin.domain.ids import LAST
from tocsin.engine.inspect.inbox import shown_item
from tocsin.store.inbox import items, marks
from tocsin.store.inbox.items import InboxState
from tocsin.store.inbox.marks import BulkMark, Mark
from tocsin.wire.person.inbox import CategoryName, ChangedItem, InboxCounts, InboxPage, ReadItems, SeenItems

EVERY_SEEN, EVERY_READ = SeenItems(), ReadItems()

routes = Routes(Tag.INBOX)


class WhichItems(Query, frozen=True, kw_only=True):
    """A page of items: at most `limit`, older than `cursor`, in a state and of a category.

    `active` are those that are not archived.
    """

    category: CategoryName | None = None
    state: InboxState = "active"
    cursor: UUID | None = None
    limit: Annotated[int, Meta(ge=1, le=100)] = 20


@routes("GET /v1/inbox", "List one's inbox, newest first, and count what is new", PERSON)
async def list_inbox(request: ApiRequest, query: WhichItems) -> InboxPage:
    """List items of the person who calls."""
    async with request.pool.acquire() as connection:
        # One more than is shown tells whether there is a following page.
        found = await items.list_items(
            connection,
            request.person,
            query.cursor or LAST,
            state=query.state,
            category=query.category,
            limit=query.limit + 1,
        )
        counts = await items.count(connection, request.person)
    shown = found[: query.limit]
    return InboxPage(
        items=[shown_item(row) for row in shown],
        next_cursor=shown[-1].id if len(found) > query.limit else None,
        unread=counts.unread,
        unseen=counts.unseen,
    )


@routes("POST /v1/inbox/{item_id}/read", "Mark an item as read, and as seen", PERSON)
async def read_item(request: ApiRequest, item_id: UUID) -> ChangedItem:
    """Record that the person who calls has read an item."""
    return await _mark(request, item_id, "read")


@routes("POST /v1/inbox/{item_id}/unread", "Mark an item as unread; it stays seen", PERSON)
async def unread_item(request: ApiRequest, item_id: UUID) -> ChangedItem:
    """Record that the person who calls wants to read an item again."""
    return await _mark(request, item_id, "unread")


@routes("POST /v1/inbox/{item_id}/archive", "Put an item away: it counts and is listed no longer", PERSON)
async def archive_item(request: ApiRequest, item_id: UUID) -> ChangedItem:
    """Archive an item of the person who calls."""
    return await _mark(request, item_id, "archive")


@routes("POST /v1/inbox/{item_id}/unarchive", "Put an archived item back", PERSON)
async def unarchive_item(request: ApiRequest, item_id: UUID) -> ChangedItem:
    """Restore an item of the person who calls."""
    return await _mark(request, item_id, "unarchive")


@routes("POST /v1/inbox/seen", "Mark all items up to an id as seen, or all there are", PERSON)
async def see_items(request: ApiRequest, body: SeenItems = EVERY_SEEN) -> InboxCounts:
    """Record that the person who calls has seen their inbox."""
    return await _mark_all(request, "seen", body.up_to)


@routes(
    "POST /v1/inbox/read",
    "Mark all items up to an id as read, or all there are, of one category or of any",
    PERSON,
    example={"category": "orders"},
)
async def read_items(request: ApiRequest, body: ReadItems = EVERY_READ) -> InboxCounts:
    """Record that the person who calls has read their inbox."""
    return await _mark_all(request, "read", body.up_to, body.category)


async def _mark(request: ApiRequest, item_id: UUID, change: Mark) -> ChangedItem:
    async with request.pool.acquire() as connection:
        row = await marks.mark(connection, request.person, item_id, change, request.now())
        if row is None:
            raise ProblemError(NOT_FOUND, "You have no such item.")
        counts = await items.count(connection, request.person)
    return ChangedItem(item=shown_item(row), unread=counts.unread, unseen=counts.unseen)


async def _mark_all(
    request: ApiRequest, change: BulkMark, up_to: UUID | None, category: str | None = None
) -> InboxCounts:
    async with request.pool.acquire() as connection:
        await marks.mark_all(
            connection, request.person, change, request.now(), up_to=up_to, category=category
        )
        counts = await items.count(connection, request.person)
    return InboxCounts(unread=counts.unread, unseen=counts.unseen)
