"""The outbox by asyncpg."""

from typing import Any, Protocol, Unpack

from tocsin.client.outbox.row import Particulars, publish_call


class Connection(Protocol):
    """A connection of asyncpg's, its own or a pool's."""

    async def fetchval(self, query: str, *args: Any) -> Any:
        """Run a statement and return its first value."""
        ...


async def publish(
    connection: Connection,
    type: str,  # noqa: A002 - the field of an intent
    **particulars: Unpack[Particulars],
) -> int:
    """Publish within the connection's transaction and return the id of the row in the outbox."""
    call = publish_call(type, particulars)
    # By way of text, because an application may have given jsonb a codec of its own.
    statement = f"select {call.function}($1::text::jsonb, $2::text, $3::text)"
    made: int = await connection.fetchval(statement, call.intent, call.aggregate, call.aggregate_id)
    return made
