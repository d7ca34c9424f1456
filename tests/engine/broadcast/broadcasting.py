"""Broadcasts of a test: people, a segment, and an expander that is called step by step."""

from collections.abc import AsyncIterator, Iterable, Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from tests.engine.stage import PUSH, Stage, an_intent
from tests.rows import NOW
from tocsin.domain.intent import Audience
from tocsin.engine.accept.acceptor import Acceptor
from tocsin.engine.accept.answers import Accepted
from tocsin.engine.accept.planner import Planner
from tocsin.engine.broadcast.expansion import Expander
from tocsin.engine.broadcast.segments import Uploader
from tocsin.store.broadcasts import broadcasts
from tocsin.store.broadcasts.broadcasts import BroadcastRow
from tocsin.store.broadcasts.segments import SegmentRow

EVERYONE = Audience(everyone=True)


def a_planner(stage: Stage, largest_audience: int = 10_000) -> Planner:
    return Planner(stage.catalog, PUSH, {}, stage.toggles, largest_audience)


def an_expander(stage: Stage) -> Expander:
    return Expander(stage.pool, a_planner(stage), stage.clock)


async def add_people(stage: Stage, user_ids: Iterable[str], org_id: str | None = None) -> None:
    await stage.pool.execute(
        "insert into users (user_id, org_id, updated_at)"
        " select user_id, $2, $3 from unnest($1::text[]) as user_id",
        list(user_ids),
        org_id,
        NOW,
    )


async def parts(*texts: str | bytes) -> AsyncIterator[bytes]:
    for text in texts:
        yield text.encode() if isinstance(text, str) else text


async def add_segment(
    stage: Stage, name: str, user_ids: Sequence[str], org_id: str | None = None
) -> SegmentRow:
    lines = "".join(f'{{"user_id": "{user_id}"}}\n' for user_id in user_ids)
    return await Uploader(stage.pool, stage.clock, org_id).upload(name, parts(lines))


async def accept(stage: Stage, audience: Audience = EVERYONE, **changes: Any) -> UUID:
    """Accept one broadcast and give its notification; those by attributes become one if they find anybody."""
    acceptor = Acceptor(stage.pool, a_planner(stage, 1), stage.clock)
    fields = {"type": "plain", "payload": {}, "audience": audience}
    (answer,) = await acceptor.accept("shop", [an_intent(**fields | changes)])
    assert isinstance(answer, Accepted)
    return answer.notification_id


async def progress(stage: Stage, notification_id: UUID) -> BroadcastRow:
    row = await broadcasts.get(stage.pool, notification_id)
    assert row is not None
    return row


async def expand(stage: Stage, notification_id: UUID, *, steps: int = 100) -> BroadcastRow:
    """Expand a broadcast until it ends, or by some chunks; no worker claims, so time has to pass."""
    expander = an_expander(stage)
    for _ in range(steps):
        if (await progress(stage, notification_id)).state != "expanding":
            break
        stage.clock.advance(timedelta(seconds=1))
        await expander.step()
    return await progress(stage, notification_id)


async def reached(stage: Stage, notification_id: UUID) -> list[str]:
    """List the people who have a delivery, as often as they have one."""
    return sorted(str(row["user_id"]) for row in await stage.deliveries(notification_id))
