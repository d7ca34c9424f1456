"""The outbox by Django: the row is written in the transaction at hand, so `on_commit` is not needed."""

from typing import Unpack

from django.db import DEFAULT_DB_ALIAS, NotSupportedError, connections

from tocsin.client.outbox.row import Particulars, publish_call


def publish(
    type: str,  # noqa: A002 - the field of an intent
    *,
    using: str = DEFAULT_DB_ALIAS,
    **particulars: Unpack[Particulars],
) -> int:
    """Publish within the transaction of a database, the default one unless named, and return the row's id."""
    connection = connections[using]
    if connection.vendor != "postgresql":
        raise NotSupportedError(
            f"The outbox needs PostgreSQL; the database {using!r} is {connection.vendor}."
        )
    call = publish_call(type, particulars)
    with connection.cursor() as cursor:
        cursor.execute(f"select {call.function}(%s::text::jsonb, %s::text, %s::text)", call[1:])
        made: int = cursor.fetchone()[0]
    return made
