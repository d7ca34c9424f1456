import asyncio
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from redis import Redis
from redis.asyncio import Redis as AsyncRedis

from tests.ingress.redis_streams.conftest import STREAM, Galaxy
from tocsin.client.errors import AppendFailedError, RefusedError
from tocsin.client.streams import AsyncStreamProducer, StreamProducer, checked_fields
from tocsin.domain.intent import Intent
from tocsin.ingress.redis_streams.envelopes import read_entry

PAYLOAD = {"customer_name": "Ali Veli"}


async def test_what_producers_append_is_accepted(galaxy: Galaxy) -> None:
    def append() -> str:
        with Redis.from_url(galaxy.server.url, decode_responses=True) as redis:
            producer = StreamProducer(redis, "game_lobby")
            return producer.append("new_customer", users=["ada"], payload=PAYLOAD, idempotency_key="1")

    first = await asyncio.to_thread(append)
    producer = AsyncStreamProducer(galaxy.redis, "game_master", stream=STREAM)
    second = await producer.append(
        "new_customer", users=["ada", "bob"], payload=PAYLOAD, idempotency_key="2", request_id="r"
    )
    async with galaxy.consuming():
        await galaxy.reaches(second)

    stored = await galaxy.notifications()
    assert [(row["external_id"], row["producer"]) for row in stored] == [
        (first, "game_lobby"),
        (second, "game_master"),
    ]
    assert not await galaxy.refused()


async def test_an_intent_that_would_be_refused_is_not_appended(galaxy: Galaxy) -> None:
    producer = AsyncStreamProducer(galaxy.redis, "x" * 200)
    with pytest.raises(RefusedError) as caught:
        await producer.append("new_customer", users=["ada", "ada"], payload=PAYLOAD, idempotency_key="1")

    assert [fault.field for fault in caught.value.faults] == ["recipient_user_ids_json", "producer"]
    assert await galaxy.redis.xlen(STREAM) == 0


async def test_a_failure_of_redis_is_an_error_of_its_own() -> None:
    async with AsyncRedis(host="127.0.0.1", port=1) as unreachable:
        producer = AsyncStreamProducer(unreachable, "game_lobby")
        with pytest.raises(AppendFailedError, match="same key") as caught:
            await producer.append("new_customer", users=["ada"], payload=PAYLOAD, idempotency_key="1")

    assert caught.value.idempotency_key == "1"


@given(
    users=st.none() | st.lists(st.text("abc", min_size=1, max_size=5), min_size=1, unique=True),
    payload=st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=5) | st.none()),
    occurred_at=st.datetimes(datetime(1970, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001 - the zone is added
)
def test_an_entry_is_read_as_it_was_written(
    users: list[str] | None, payload: dict[str, object], occurred_at: datetime
) -> None:
    fields = checked_fields(
        "game_lobby",
        "new_customer",
        {"users": users, "payload": payload, "idempotency_key": "k", "occurred_at": occurred_at},
    )
    raw = {name.encode(): value.encode() for name, value in fields.items()}
    read = read_entry("1-1", raw, "").intent

    assert isinstance(read, Intent)
    assert (read.audience.users, read.audience.admins) == (users, None if users else True)
    assert read.payload == payload
    assert read.occurred_at == occurred_at.replace(microsecond=occurred_at.microsecond // 1000 * 1000)
