"""The outbox by SQLAlchemy, whichever driver it uses."""

from typing import Any, Unpack

from sqlalchemy import Connection, TextClause, text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession
from sqlalchemy.orm import Session

from tocsin.client.outbox.row import Call, Particulars, call


def publish(
    session: Session | Connection,
    type: str,  # noqa: A002 - the word that intents use
    **particulars: Unpack[Particulars],
) -> int:
    """Publish within the session's transaction and give the id of the row in the outbox."""
    said = call(type, particulars)
    made: int = session.execute(_statement(said), _values(said)).scalar_one()
    return made


async def publish_async(
    session: AsyncSession | AsyncConnection,
    type: str,  # noqa: A002 - the word that intents use
    **particulars: Unpack[Particulars],
) -> int:
    """Publish within the session's transaction and give the id of the row in the outbox."""
    said = call(type, particulars)
    made: int = (await session.execute(_statement(said), _values(said))).scalar_one()
    return made


def _statement(said: Call) -> TextClause:
    # A colon would begin the name of a value.
    function = said.function.replace(":", r"\:")
    return text(
        f"select {function}(cast(cast(:intent as text) as jsonb), "
        "cast(:aggregate as text), cast(:aggregate_id as text))"
    )


def _values(said: Call) -> dict[str, Any]:
    return {"intent": said.intent, "aggregate": said.aggregate, "aggregate_id": said.aggregate_id}
