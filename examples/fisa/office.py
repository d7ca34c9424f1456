"""The office's own code: somebody comments on a work item, and those who watch it are to know."""

import uuid
from collections.abc import Sequence

import asyncpg
import msgspec

ORGANISATION = "4b0c5a0e-6f3c-4e0f-9a54-1d6f3f5b8a11"
ADD_COMMENT = "insert into comments (work_item, author, words) values ($1, $2, $3)"
ADD_EVENT = """
insert into outbox_events (aggregate, aggregate_id, event_type, payload)
values ('work_item', $1, 'comment.added', $2)
"""


async def add_comment(
    connection: asyncpg.Connection, item: str, words: str, *, author: str, watchers: Sequence[str]
) -> str:
    """Store a comment and the event about it, both in one transaction; return the id of the event."""
    event_id = str(uuid.uuid4())
    envelope = {
        "event_id": event_id,
        "event_type": "comment.added",
        "org_id": ORGANISATION,
        "recipients": list(watchers),
        "title": f"New comment on {item}",
        "body": words,
        "icon": "comment",
        "severity": "info",
        "deep_link": f"fisa://work-item/{item}?tab=comments",
        "extras": {"work_item_id": item},
        "correlation_id": f"comment-{event_id[:8]}",
    }
    async with connection.transaction():
        await connection.execute(ADD_COMMENT, item, author, words)
        await connection.execute(ADD_EVENT, item, msgspec.json.encode(envelope).decode())
    return event_id
