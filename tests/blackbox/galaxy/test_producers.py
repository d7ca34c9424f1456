"""Producers that use `tocsin.client`: what they append is accepted, and a failure is an error of its own."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from redis import Redis
from redis.asyncio import Redis as AsyncRedis

from tests.acceptance.processes import free_port
from tests.blackbox.galaxy.rig.document import EVERY_ROUTE, TYPES
from tests.blackbox.galaxy.rig.system import Notifications
from tests.redis_servers import RedisServer
from tocsin.client.errors import AppendFailedError, RefusedError
from tocsin.client.streams import AsyncStreamProducer, StreamProducer


@pytest.mark.parametrize(("name", "kind"), EVERY_ROUTE)
async def test_what_a_producer_appends_is_accepted(
    galaxy: Notifications, redis_server: RedisServer, name: str, kind: str
) -> None:
    type_ = TYPES[name]
    users = [galaxy.player()] if kind == "user" else None
    given: Mapping[str, Any] = {"users": users, "payload": type_.payload, "request_id": "request-6"}
    with Redis.from_url(redis_server.url) as redis:
        producer = StreamProducer(redis, type_.producer)
        entry_id = await asyncio.to_thread(
            producer.append, name, **given, idempotency_key=f"sync-{name}-{kind}"
        )
    asynchronous = AsyncStreamProducer(galaxy.redis, type_.producer)
    other_id = await asynchronous.append(name, **given, idempotency_key=f"async-{name}-{kind}")

    for each in (entry_id, other_id):
        shown = await galaxy.accepted(each)
        assert (shown["producer"], shown["request_id"]) == (type_.producer, "request-6")
        await galaxy.routes(each)


async def test_a_producer_refuses_what_the_service_would_refuse(galaxy: Notifications) -> None:
    before = await galaxy.redis.xlen(galaxy.intents)

    with pytest.raises(RefusedError):
        await AsyncStreamProducer(galaxy.redis, "game_master").append(
            "game.finished", users=["ada", "ada"], payload={}, idempotency_key="twice"
        )

    assert await galaxy.redis.xlen(galaxy.intents) == before


async def test_a_failure_to_append_is_an_error_of_its_own() -> None:
    """Whoever catches it keeps their own transaction."""
    async with AsyncRedis.from_url(f"redis://127.0.0.1:{free_port()}") as nowhere:
        with pytest.raises(AppendFailedError):
            await AsyncStreamProducer(nowhere, "game_master").append(
                "game.finished", users=["ada"], payload={}, idempotency_key="lost"
            )


async def test_appending_trims_nothing(galaxy: Notifications) -> None:
    before = await galaxy.redis.xlen(galaxy.intents)
    producer = AsyncStreamProducer(galaxy.redis, "game_master")
    ada = galaxy.player()

    for number in range(3):
        await producer.append(
            "game.finished",
            users=[ada],
            payload=TYPES["game.finished"].payload,
            idempotency_key=f"{ada}-{number}",
        )

    assert await galaxy.redis.xlen(galaxy.intents) == before + 3
