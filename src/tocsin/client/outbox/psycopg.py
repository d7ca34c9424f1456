"""The outbox by psycopg 3."""

from typing import Any, Unpack

from psycopg import AsyncConnection, Connection, sql
from psycopg.rows import tuple_row

from tocsin.client.outbox.row import Particulars, PublishCall, publish_call


def publish(
    connection: Connection[Any],
    type: str,  # noqa: A002 - the field of an intent
    **particulars: Unpack[Particulars],
) -> int:
    """Publish within the connection's transaction and return the id of the row in the outbox."""
    call = publish_call(type, particulars)
    with connection.cursor(row_factory=tuple_row) as cursor:
        return _id(cursor.execute(_statement(call), call[1:]).fetchone())


async def publish_async(
    connection: AsyncConnection[Any],
    type: str,  # noqa: A002 - the field of an intent
    **particulars: Unpack[Particulars],
) -> int:
    """Publish within the connection's transaction and return the id of the row in the outbox."""
    call = publish_call(type, particulars)
    async with connection.cursor(row_factory=tuple_row) as cursor:
        await cursor.execute(_statement(call), call[1:])
        return _id(await cursor.fetchone())


def _statement(call: PublishCall) -> sql.Composed:
    return sql.SQL("select {}(%s::text::jsonb, %s::text, %s::text)").format(sql.SQL(call.function))


def _id(row: tuple[Any, ...] | None) -> int:
    # A function that returns one value returns one row.
    assert row is not None  # noqa: S101
    made: int = row[0]
    return made
