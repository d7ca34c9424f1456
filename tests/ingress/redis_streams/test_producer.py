import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import cast
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from redis import Redis
from redis.asyncio import Redis as AsyncRedis
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.retry import Retry

from tests.ingress.redis_streams.conftest import STREAM, Galaxy
from tests.redis_servers import RedisServer
from tocsin.client.errors import AppendFailedError, RefusedError
from tocsin.client.streams import AsyncStreamProducer, StreamParticulars, StreamProducer, checked_fields
from tocsin.domain.intent import Intent
from tocsin.ingress.redis_streams.envelopes import read_entry

PAYLOAD = {"customer_name": "Ali Veli"}
TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=5)


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


async def test_neither_one_text_as_users_nor_a_number_that_json_lacks_is_appended(galaxy: Galaxy) -> None:
    producer = AsyncStreamProducer(galaxy.redis, "game_lobby")
    payload = {"x": float("nan"), "note": None, "rows": [{"y": float("-inf")}, 1.5], "word": "null"}
    with pytest.raises(RefusedError) as caught:
        await producer.append("new_customer", users="42", payload=payload, idempotency_key="1")

    assert [(fault.field, fault.code) for fault in caught.value.faults] == [
        ("recipient_user_ids_json", "invalid"),
        ("payload_json.x", "not_finite"),
        ("payload_json.rows[0].y", "not_finite"),
    ]
    assert await galaxy.redis.xlen(STREAM) == 0


async def test_a_failure_of_redis_is_an_error_of_its_own() -> None:
    async with AsyncRedis(host="127.0.0.1", port=1, retry=AsyncRetry(NoBackoff(), 0)) as unreachable:
        producer = AsyncStreamProducer(unreachable, "game_lobby")
        with pytest.raises(AppendFailedError, match="same key") as caught:
            await producer.append("new_customer", users=["ada"], payload=PAYLOAD, idempotency_key="1")

    assert caught.value.idempotency_key == "1"


@pytest.fixture
async def lossy_port(redis_server: RedisServer) -> AsyncIterator[int]:
    """Run a proxy before Redis that breaks the connection instead of passing the answer to XADD on."""
    address = urlsplit(redis_server.url)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream, to_upstream = await asyncio.open_connection(address.hostname, address.port)
        while sent := await reader.read(65_536):
            to_upstream.write(sent)
            answer = await upstream.read(65_536)
            if b"XADD" in sent:
                break
            writer.write(answer)
        to_upstream.close()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def test_a_lost_answer_is_not_retried_by_the_client(galaxy: Galaxy, lossy_port: int) -> None:
    def append() -> None:
        with Redis(port=lossy_port, retry=Retry(NoBackoff(), 3)) as redis:
            StreamProducer(redis, "game_lobby").append("new_customer", payload=PAYLOAD, idempotency_key="1")

    with pytest.raises(AppendFailedError):
        await asyncio.to_thread(append)
    assert await galaxy.redis.xlen(STREAM) == 1

    async with AsyncRedis(port=lossy_port, retry=AsyncRetry(NoBackoff(), 3)) as redis:
        producer = AsyncStreamProducer(redis, "game_lobby")
        for _ in range(2):
            with pytest.raises(AppendFailedError):
                await producer.append("new_customer", payload=PAYLOAD, idempotency_key="1")
    assert await galaxy.redis.xlen(STREAM) == 3


async def test_what_redis_refuses_leaves_the_connection_usable(galaxy: Galaxy) -> None:
    await galaxy.redis.set("text", "x")
    async with AsyncRedis.from_url(galaxy.server.url, max_connections=1) as redis:
        with pytest.raises(AppendFailedError, match="ResponseError"):
            await AsyncStreamProducer(redis, "game_lobby", stream="text").append(
                "new_customer", payload=PAYLOAD, idempotency_key="1"
            )
        entry_id = await AsyncStreamProducer(redis, "game_lobby").append(
            "new_customer", payload=PAYLOAD, idempotency_key="1"
        )
        (entry,) = cast("list[tuple[bytes, object]]", await redis.xrange(STREAM))
    assert entry[0].decode() == entry_id


NESTED: dict[str, object] = {}
for _ in range(5_000):
    NESTED = {"a": NESTED}


@pytest.mark.parametrize(
    ("changes", "faults"),
    [
        ({"payload": {"a": "\ud800"}}, [("payload_json", "not_text")]),
        (
            {"idempotency_key": "\ud800", "request_id": "\udfff"},
            [("idempotency_key", "not_text"), ("request_id", "not_text")],
        ),
        (
            {"users": ["\ud800"], "trace_id": "\x00"},
            [("recipient_user_ids_json", "not_text"), ("trace_id", "nul_character")],
        ),
        ({"payload": {"a": ["\\\x00"]}}, [("payload_json", "nul_character")]),
        ({"payload": NESTED}, [("payload_json", "too_deep")]),
        ({"payload": {"a": "é" * 140_000}}, [("$", "too_large")]),
    ],
)
def test_what_cannot_be_written_is_a_fault(changes: StreamParticulars, faults: list[tuple[str, str]]) -> None:
    given: StreamParticulars = {"payload": PAYLOAD, "idempotency_key": "k"}
    with pytest.raises(RefusedError) as caught:
        checked_fields("game_lobby", "new_customer", given | changes)
    assert [(fault.field, fault.code) for fault in caught.value.faults] == faults


def test_a_backslash_before_u0000_is_no_nul_character() -> None:
    fields = checked_fields("p", "t", {"payload": {"a": "\\u0000"}, "idempotency_key": "k"})
    assert fields["payload_json"] == '{"a":"\\\\u0000"}'


@given(
    users=st.none() | st.lists(st.text("abc", min_size=1, max_size=5), min_size=1, unique=True),
    payload=st.dictionaries(TEXT, st.integers() | TEXT | st.none()),
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
