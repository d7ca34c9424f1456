"""The outbox by asyncpg."""

from typing import Any, Protocol, Unpack

from tocsin.client.outbox.row import Particulars, call


class Connection(Protocol):
    """A connection of asyncpg's, its own or a pool's."""

    async def fetchval(self, query: str, *args: Any) -> Any:
        """Run a statement and give its first value."""
        ...


async def publish(
    connection: Connection,
    type: str,  # noqa: A002 - the word that intents use
    **particulars: Unpack[Particulars],
) -> int:
    """Publish within the connection's transaction and give the id of the row in the outbox."""
    said = call(type, particulars)
    # By way of text, because an application may have given jsonb a codec of its own.
    statement = f"select {said.function}($1::text::jsonb, $2::text, $3::text)"
    made: int = await connection.fetchval(statement, said.intent, said.aggregate, said.aggregate_id)
    return made
