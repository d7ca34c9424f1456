"""Items put straight into people's inboxes, as the starting point of a test."""

from uuid import UUID

from tests.rows import NOW
from tocsin.domain.ids import uuid7
from tocsin.store.pool import Connection, Pool


async def add_items(
    connection: Connection | Pool, user_id: str, count: int, *, category: str = "orders"
) -> list[UUID]:
    """Add items of a person and return their ids, oldest first."""
    made = [uuid7() for _ in range(count)]
    await connection.execute(
        """
        insert into inbox_items (
            id, user_id, delivery_id, type, category, title, body, link, data, created_at
        )
        select id, $2, id, 'announcement', $3, 'Item ' || number - 1, 'Text', '/x', '{"k": "v"}', $4
        from unnest($1::uuid[]) with ordinality as given (id, number)
        """,
        made,
        user_id,
        category,
        NOW,
    )
    return made
