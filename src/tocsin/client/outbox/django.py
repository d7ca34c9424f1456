"""The outbox by Django: the row is written in the transaction at hand, so `on_commit` is not needed."""

from typing import Unpack

from django.db import DEFAULT_DB_ALIAS, NotSupportedError, connections

from tocsin.client.outbox.row import Particulars, call


def publish(
    type: str,  # noqa: A002 - the word that intents use
    *,
    using: str = DEFAULT_DB_ALIAS,
    **particulars: Unpack[Particulars],
) -> int:
    """Publish within the transaction of a database, the default one unless named, and give the row's id."""
    connection = connections[using]
    if connection.vendor != "postgresql":
        raise NotSupportedError(
            f"The outbox needs PostgreSQL; the database {using!r} is {connection.vendor}."
        )
    said = call(type, particulars)
    with connection.cursor() as cursor:
        cursor.execute(f"select {said.function}(%s::text::jsonb, %s::text, %s::text)", said[1:])
        made: int = cursor.fetchone()[0]
    return made
