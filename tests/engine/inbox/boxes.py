"""People's inboxes as the engine fills them."""

from typing import Any
from uuid import UUID

from tests.engine.stage import Stage, an_intent
from tocsin.engine.accept.answers import Accepted
from tocsin.providers.inbox.provider import InboxProvider
from tocsin.providers.inbox.settings import InboxSettings

CHANNELS = {"push": ("fcm",), "inbox": ("inbox",)}
ANNOUNCED = {"title": "A new report", "text": "It is there."}


def an_inbox() -> InboxProvider:
    return InboxProvider(InboxSettings(enabled=True))


async def announce(stage: Stage, *users: str, **changes: Any) -> UUID:
    """Accept a message for the inboxes of some people."""
    changes = {"type": "announcement", "payload": ANNOUNCED} | changes
    (answer,) = await stage.an_acceptor(CHANNELS).accept("shop", [an_intent(*users, **changes)])
    assert isinstance(answer, Accepted), answer
    return answer.notification_id


async def items(stage: Stage) -> list[dict[str, Any]]:
    return [dict(row) for row in await stage.pool.fetch("select * from inbox_items order by id")]
