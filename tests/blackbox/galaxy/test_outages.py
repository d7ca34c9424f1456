"""Processes, Redis and the user service die and come back; every intent is published once."""

import signal
from typing import Any

import httpx
import psutil
import pytest

from tests.acceptance.processes import Process
from tests.blackbox.galaxy.rig.system import Notifications
from tests.redis_servers import RedisServer
from tests.waiting import found


def child(process: Process, command: str) -> psutil.Process:
    """Return a process of the tree by its command."""
    return next(
        each for each in psutil.Process(process.pid).children(recursive=True) if command in each.cmdline()
    )


async def test_the_first_start_reads_the_stream_from_its_beginning(troubled: Notifications) -> None:
    entries: Any = await troubled.redis.xrange(troubled.intents, count=2)

    assert len(entries) == 2
    for entry_id, fields in entries:
        assert fields[b"idempotency_key"].startswith(b"early-")
        await troubled.routes(entry_id.decode(), "published")
        assert len(await troubled.events(entry_id.decode())) == 1


async def test_a_route_is_pending_until_a_publisher_takes_it(troubled: Notifications) -> None:
    ada = troubled.player()
    worker = child(troubled.process, "worker")
    worker.send_signal(signal.SIGSTOP)
    try:
        entry_id = await troubled.append("game.finished", ada)
        routes = await troubled.routes(entry_id, "pending")
        assert await troubled.events(entry_id) == []
    finally:
        worker.send_signal(signal.SIGCONT)

    assert routes.keys() == {f"push:user:{ada}", f"email:user:{ada}"}
    await troubled.routes(entry_id, "published")


async def test_while_the_user_service_is_away_no_intent_is_accepted_or_lost(troubled: Notifications) -> None:
    ada = troubled.player()
    troubled.users.broken = b"503"
    try:
        entry_id = await troubled.append("game.finished", ada)
        after = await troubled.append("geo.review_recommended")

        async def was_asked_again() -> bool:
            return troubled.users.asked[ada] > 2

        await found(was_asked_again)
        assert await troubled.shown(entry_id) is None
        assert await troubled.shown(after) is None

        async def alarm_is_raised() -> bool:
            answer = await troubled.http.get("/v1/admin/alarms", headers=troubled.key)
            return "directory_unavailable" in answer.text

        await found(alarm_is_raised)
    finally:
        troubled.users.broken = None

    await troubled.routes(entry_id, "published")
    await troubled.accepted(after)
    assert len(await troubled.events(entry_id)) == 1


async def test_of_two_replicas_one_publishes_each_route_and_one_continues_when_the_other_stops(
    troubled: Notifications,
) -> None:
    players = [troubled.player() for _ in range(5)]
    replica = await troubled.start_replica()
    entry_ids = [await troubled.append("game.finished", *players) for _ in range(10)]
    for entry_id in entry_ids:
        await troubled.routes(entry_id, "published")

    troubled.process.signal(signal.SIGTERM)
    assert await troubled.process.end(within=40) == 0
    async with httpx.AsyncClient() as client:
        with pytest.raises(httpx.ConnectError):
            await client.get(f"{troubled.probes}/healthz")
    troubled.use(replica)
    entry_ids += [await troubled.append("game.finished", *players) for _ in range(5)]
    for entry_id in entry_ids:
        await troubled.routes(entry_id, "published")
        for published, field in ((troubled.events, "event_id"), (troubled.commands, "delivery_id")):
            ids = [str(each[field]) for each in await published(entry_id)]
            assert len(ids) == len(set(ids)) == len(players)


async def test_a_worker_that_is_killed_is_replaced_and_repeats_nothing_under_another_id(
    troubled: Notifications,
) -> None:
    players = [troubled.player() for _ in range(20)]
    worker = child(troubled.process, "worker")
    entry_ids = [await troubled.append("game.finished", *players) for _ in range(5)]
    worker.kill()

    for entry_id in entry_ids:
        await troubled.routes(entry_id, "published", within=40)
        expected = {f"{entry_id}/push:user:{player}".encode() for player in players}
        assert {each["event_id"] for each in await troubled.events(entry_id)} == expected


async def test_redis_restarts_and_what_it_acknowledged_is_read_on(
    troubled: Notifications, redis_in_trouble: RedisServer
) -> None:
    before = await troubled.append("game.finished", troubled.player())
    await troubled.routes(before, "published")

    await redis_in_trouble.kill()
    async with httpx.AsyncClient() as client:
        ready = await client.get(f"{troubled.probes}/readyz")
    assert ready.json() == {"status": "ready"}
    await redis_in_trouble.start()
    await troubled.redis.connection_pool.disconnect()
    after = await troubled.append("game.finished", troubled.player())

    await troubled.routes(after, "published", within=40)
    assert len(await troubled.events(before)) == len(await troubled.events(after)) == 1


async def test_the_stream_is_read_without_a_consumer_group(troubled: Notifications) -> None:
    assert await troubled.redis.xinfo_groups(troubled.intents) == []


async def test_leases_offsets_and_schedules_are_not_kept_in_redis(troubled: Notifications) -> None:
    keys: Any = await troubled.redis.keys()

    assert {key.decode() for key in keys} <= {
        troubled.intents,
        troubled.client_events,
        troubled.mail_commands,
    }
