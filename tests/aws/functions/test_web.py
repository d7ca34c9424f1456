"""The function for browsers: from an event to the stream of the gateway."""

import asyncio
import json
import tracemalloc
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from tests.aws.functions.conftest import Function
from tests.aws.functions.events import envelope, failed, queue_record, topic_record
from tests.aws_servers import REGION, AwsServer
from tests.redis_servers import RedisServer, running_redis
from tocsin.aws import delivery_web
from tocsin.wire.streams.client_events import DEFAULT_STREAM


@pytest.fixture
async def web(redis_server: RedisServer, clean_environ: pytest.MonkeyPatch) -> AsyncIterator[Function]:
    clean_environ.setenv("DELIVERY_REDIS_URL", redis_server.url)
    function = Function(delivery_web)
    function.restart()
    yield function
    function.restart()


async def entries(redis: Redis) -> list[dict[bytes, bytes]]:
    found: Any = await redis.xrange(DEFAULT_STREAM)
    return [fields for _, fields in found]


async def test_each_recipient_has_an_entry_without_the_others(web: Function, redis: Redis) -> None:
    event = envelope("ada", 42)

    assert failed(await web(queue_record(event, "broadcast"))) == []

    first, second = await entries(redis)
    assert json.loads(first[b"payload_bytes"]) == {**event, "recipients": ["ada"]}
    assert json.loads(second[b"payload_bytes"]) == {**event, "recipients": ["42"]}
    del first[b"payload_bytes"]
    assert first == {
        b"user_id": b"ada",
        b"event_type": b"comment.added",
        b"event_id": f"{event['event_id']}/push:user:ada".encode(),
        b"content_type": b"application/json",
        b"trace_id": event["correlation_id"].encode(),
    }


async def test_order_is_kept_and_one_that_is_no_envelope_holds_up_nobody(web: Function, redis: Redis) -> None:
    records = [queue_record(envelope("ada", body=str(number)), "user-ada") for number in range(10)]
    records.insert(3, queue_record("no envelope", "user-ada"))

    assert failed(await web(*records)) == [records[3]["messageId"]]

    shown = [json.loads(entry[b"payload_bytes"])["body"] for entry in await entries(redis)]
    assert shown == [str(number) for number in range(10)]


async def test_a_topic_may_invoke_it_too(web: Function, redis: Redis) -> None:
    await web(topic_record(envelope("ada")))

    assert len(await entries(redis)) == 1


async def test_the_stream_is_trimmed(web: Function, redis: Redis, clean_environ: pytest.MonkeyPatch) -> None:
    clean_environ.setenv("DELIVERY_MAX_LEN", "10")
    everybody = [f"user-{number}" for number in range(500)]

    await web(topic_record(envelope(*everybody)))

    # Redis trims whole nodes of a hundred entries.
    assert 10 <= await redis.xlen(DEFAULT_STREAM) < 200


async def test_a_large_envelope_for_many_takes_little_memory(
    web: Function, redis: Redis, clean_environ: pytest.MonkeyPatch
) -> None:
    clean_environ.setenv("DELIVERY_MAX_LEN", "10")
    everybody = [f"user-{number}" for number in range(400)]
    record = queue_record(envelope(*everybody, extras={"text": "x" * 150_000}), "broadcast")
    tracemalloc.start()
    try:
        assert failed(await web(record)) == []
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    # All entries together are 60 MB, several times; a function has 256 MB for all that it does.
    assert peak < 20_000_000
    [*_, last] = await entries(redis)
    assert last[b"user_id"] == b"user-399"


async def test_an_envelope_that_is_too_large_for_one_is_appended_for_nobody(
    web: Function, redis: Redis
) -> None:
    record = queue_record(envelope("ada", "b" * 128, extras={"text": "x" * 261_580}), "broadcast")

    assert failed(await web(record)) == [record["messageId"]]

    assert await entries(redis) == []


async def test_without_redis_nothing_is_lost(
    web: Function, tmp_path: Path, clean_environ: pytest.MonkeyPatch
) -> None:
    async with running_redis(tmp_path, password="secret") as server:
        clean_environ.setenv("DELIVERY_REDIS_URL", server.url)
        first, second, third = [queue_record(envelope("ada"), "user-ada") for _ in range(3)]
        assert failed(await web(first)) == []
        await server.kill()
        assert failed(await web(second, third)) == [second["messageId"], third["messageId"]]
        await server.start()
        assert failed(await web(second, third)) == []
        async with Redis.from_url(server.url) as redis:
            ids = [entry[b"event_id"].decode().partition("/")[0] for entry in await entries(redis)]

    records = [json.loads(json.loads(record["body"])["Message"]) for record in (first, second, third)]
    assert ids == [record["event_id"] for record in records]


async def test_the_address_may_be_in_the_parameter_store(
    web: Function,
    redis: Redis,
    redis_server: RedisServer,
    aws_server: AwsServer,
    clean_environ: pytest.MonkeyPatch,
) -> None:
    name = "/fisa/redis-url"
    await asyncio.to_thread(
        aws_server.client("ssm").put_parameter, Name=name, Value=redis_server.url, Type="SecureString"
    )
    clean_environ.delenv("DELIVERY_REDIS_URL")
    clean_environ.setenv("DELIVERY_REDIS_URL_PARAMETER", name)
    clean_environ.setenv("AWS_ENDPOINT_URL", aws_server.url)
    clean_environ.setenv("AWS_DEFAULT_REGION", REGION)

    assert failed(await web(queue_record(envelope("ada"), "user-ada"))) == []

    assert len(await entries(redis)) == 1
