"""Comments that are collected in digests."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import msgspec

from tests.engine.stage import Stage, StubProvider
from tests.waiting import found, until
from tocsin.domain.decide import Step

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
WINDOW = HOUR + SECOND
NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


async def comment(stage: Stage, author: str, user: str = "ada", **changes: Any) -> UUID:
    """Let somebody comment, which a person is to hear of."""
    payload = changes.pop("payload", {"author": author, "post": changes.pop("post", "P")})
    key = changes.pop("idempotency_key", f"{user}-{author}")
    return await stage.accept(user, type="comment", payload=payload, idempotency_key=key, **changes)


async def comments(stage: Stage, count: int, **changes: Any) -> list[UUID]:
    """Let so many comment, one after the other."""
    return [await comment(stage, f"a{number}", **changes) for number in range(count)]


async def every(stage: Stage, made: Sequence[UUID], *states: str) -> list[dict[str, Any]]:
    """Wait until all deliveries of some notifications are in one of some states, free of leases."""

    async def look() -> list[dict[str, Any]]:
        rows = [row for each in made for row in await stage.deliveries(each)]
        return rows if all(row["state"] in states and row["lease"] is None for row in rows) else []

    return await found(look)


async def carriers(stage: Stage) -> list[dict[str, Any]]:
    """Read the deliveries that carry digests, in the order they were made."""
    rows = await stage.pool.fetch("select * from deliveries where notification_id is null order by id")
    return [dict(row) for row in rows]


async def digests(stage: Stage) -> list[str]:
    """Return the states of all digests, oldest first."""
    return [row["state"] for row in await stage.pool.fetch("select state from digests order by id")]


async def tried(stage: Stage, provider: StubProvider, times: int) -> None:
    """Wait until a digest was tried so often and its carriers are settled or wait."""
    await until(lambda: len(provider.arrived) == times)

    async def idle() -> bool:
        return all(row["lease"] is None for row in await carriers(stage))

    await found(idle)


def steps(row: dict[str, Any]) -> list[Step]:
    return msgspec.json.decode(row["decisions"] or "[]", type=list[Step])


def part_of(carrier: dict[str, Any], how: str) -> str:
    return f"{how} digest {carrier['digest_id']}, delivery {carrier['id']}"


def titles(provider: StubProvider) -> list[str]:
    return [message.title for message in provider.arrived]
