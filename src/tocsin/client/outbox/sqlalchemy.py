"""The outbox by SQLAlchemy, whichever driver it uses."""

from typing import Any, Unpack

from sqlalchemy import Connection, TextClause, text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession
from sqlalchemy.orm import Session

from tocsin.client.outbox.row import Particulars, PublishCall, publish_call


def publish(
    session: Session | Connection,
    type: str,  # noqa: A002 - the field of an intent
    **particulars: Unpack[Particulars],
) -> int:
    """Publish within the session's transaction and return the id of the row in the outbox."""
    call = publish_call(type, particulars)
    made: int = session.execute(_statement(call), _values(call)).scalar_one()
    return made


async def publish_async(
    session: AsyncSession | AsyncConnection,
    type: str,  # noqa: A002 - the field of an intent
    **particulars: Unpack[Particulars],
) -> int:
    """Publish within the session's transaction and return the id of the row in the outbox."""
    call = publish_call(type, particulars)
    made: int = (await session.execute(_statement(call), _values(call))).scalar_one()
    return made


def _statement(call: PublishCall) -> TextClause:
    # A colon would begin the name of a value.
    function = call.function.replace(":", r"\:")
    return text(
        f"select {function}(cast(cast(:intent as text) as jsonb), "
        "cast(:aggregate as text), cast(:aggregate_id as text))"
    )


def _values(call: PublishCall) -> dict[str, Any]:
    return {"intent": call.intent, "aggregate": call.aggregate, "aggregate_id": call.aggregate_id}
