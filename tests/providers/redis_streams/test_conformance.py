"""What a provider owes the engine, for those that append to Redis Streams: against a real server."""

import asyncio
from typing import Any

import pytest
import structlog
from redis.asyncio import Redis

from tests.providers.isolation_conformance import SECRET, Poison, sends_under_way
from tests.providers.redis_streams.rig import StreamRig
from tests.providers.rig import NOW
from tests.providers.wire import Proxy
from tests.redis_servers import RedisServer
from tests.waiting import found, until
from tocsin.domain.delivery.outcome import Defer, Rejected, Retry, Sent
from tocsin.providers.redis_streams.answers import REST

PAUSE_MS = 60_000


async def blocked(redis: Redis) -> bool:
    """Return whether a client waits for the server, which is paused."""
    clients = await redis.client_list()
    return any("b" in client["flags"] for client in clients)


async def test_it_says_who_it_is_and_what_it_takes(rig: StreamRig) -> None:
    provider = rig.provider(max_concurrency=7)

    assert provider.name in {"gateway_stream", "mail_stream"}
    assert provider.concurrency == 7
    assert 100 <= provider.limits.batch <= 200
    assert provider.limits.payload_bytes >= 65_536


async def test_each_message_is_an_entry_in_order_and_has_its_id(rig: StreamRig) -> None:
    outcomes = await rig.send(rig.provider(), "ada", "bob", "cleo")

    assert await rig.appended() == ["ada", "bob", "cleo"]
    assert outcomes == [Sent(entry_id) for entry_id, _ in await rig.entries()]


async def test_nothing_to_send_is_no_outcome(rig: StreamRig) -> None:
    assert list(await rig.provider().send([], now=NOW)) == []


async def test_what_cannot_be_sent_harms_no_other(rig: StreamRig) -> None:
    provider = rig.provider()
    too_large = "ü" * provider.limits.payload_bytes
    poison: dict[str, object] = {"payload": Poison()}
    batch = [
        rig.message("first"),
        rig.message("a\x00\r\n$3\r\nb"),
        rig.message("large", payload={"game_id": too_large, "turn_number": 1}),
        rig.message("half", request_id="\ud800"),
        rig.message("poison", **poison),
        rig.message("last"),
    ]

    with structlog.testing.capture_logs() as lines:
        first, odd, large, half, poisoned, last = await provider.send(batch, now=NOW)

    assert [type(each) for each in (first, odd, last)] == [Sent] * 3
    assert isinstance(large, Rejected)
    assert large.code == "payload_too_large"
    assert half == Rejected("payload_encoding_failed", "not every character is valid")
    assert isinstance(poisoned, Rejected)
    assert poisoned.code in {"internal_error", "payload_encoding_failed"}
    assert SECRET not in repr([lines, poisoned])
    assert await rig.appended() == ["first", "a\x00\r\n$3\r\nb", "last"]


async def test_a_message_without_its_payload_is_refused_before_anything_is_sent(rig: StreamRig) -> None:
    message = rig.message("ada")
    message = type(message)(
        delivery_id=message.delivery_id,
        notification_id=message.notification_id,
        type=message.type,
        target="ada",
        title="",
        body="",
        data={},
    )

    (outcome,) = await rig.provider().send([message], now=NOW)

    assert isinstance(outcome, Rejected)
    assert outcome.code == "payload_encoding_failed"


async def test_many_batches_at_once_append_each_entry_once(rig: StreamRig) -> None:
    provider = rig.provider(**({"max_len": 10_000} if rig.stream.startswith("gateway") else {}))
    batches = [[f"u{batch}-{number}" for number in range(50)] for batch in range(10)]

    outcomes = await asyncio.gather(*(rig.send(provider, *batch) for batch in batches))

    assert {type(outcome) for batch in outcomes for outcome in batch} == {Sent}
    appended = await rig.appended()
    assert sorted(appended) == sorted(name for batch in batches for name in batch)
    assert len({client["addr"] for client in await rig.redis.client_list()}) == 2


async def test_a_slow_server_has_its_time_for_each_batch(rig: StreamRig) -> None:
    """A batch that waited for another is not cut off halfway: it would be repeated."""
    async with Proxy(rig.address) as proxy:
        provider = rig.provider(url=rig.through(proxy.url), timeout=0.8)
        await rig.send(provider, "warm")
        proxy.delay(0.5)

        outcomes = await asyncio.gather(rig.send(provider, "ada"), rig.send(provider, "bob"))

    assert [type(outcome) for batch in outcomes for outcome in batch] == [Sent, Sent]
    assert await rig.appended() == ["warm", "ada", "bob"]


async def test_nothing_more_is_sent_into_silence(rig: StreamRig) -> None:
    """Of a server that hangs the one batch under way may be repeated, those that wait for it may not."""
    async with Proxy(rig.address) as proxy:
        provider = rig.provider(url=rig.through(proxy.url), timeout=0.3)
        await rig.send(provider, "warm")
        proxy.delay(60)

        outcomes = await asyncio.gather(*(rig.send(provider, name) for name in ("ada", "bob", "cleo")))

    assert [type(outcome) for batch in outcomes for outcome in batch] == [Retry, Defer, Defer]
    assert await rig.appended() == ["warm", "ada"]


async def test_a_stream_that_is_none_refuses_each_entry_and_blames_no_server(rig: StreamRig) -> None:
    await rig.redis.set(rig.stream, "a text")

    outcomes = await rig.send(rig.provider(), "ada", "bob")

    detail = "WRONGTYPE Operation against a key holding the wrong kind of value"
    assert outcomes == [Retry(rig.failed, detail, speaks_against="target")] * 2


async def test_a_full_server_refuses_and_goes_on_when_it_has_room(rig: StreamRig) -> None:
    provider = rig.provider()
    await rig.redis.config_set("maxmemory", 1)
    try:
        (refused,) = await rig.send(provider, "ada")
    finally:
        await rig.redis.config_set("maxmemory", 0)

    assert isinstance(refused, Retry)
    assert (refused.code, refused.speaks_against) == (rig.failed, "target")
    assert refused.detail.startswith("OOM ")
    assert [type(each) for each in await rig.send(provider, "ada")] == [Sent]


async def test_a_replica_speaks_against_the_server_and_is_left(rig: StreamRig) -> None:
    provider = rig.provider()
    await rig.send(provider, "before")
    await rig.redis.replicaof("127.0.0.1", "1")
    try:
        (refused,) = await rig.send(provider, "ada")

        async def is_left() -> bool:
            return len(await rig.redis.client_list()) == 1

        await found(is_left)
    finally:
        await rig.redis.replicaof("NO", "ONE")

    assert isinstance(refused, Defer)
    assert (refused.code, refused.pauses, refused.alarm) == (rig.failed, True, False)
    assert refused.detail.startswith("READONLY ")
    assert [type(each) for each in await rig.send(provider, "ada")] == [Sent]


async def test_a_server_without_its_replicas_spends_no_attempt(rig: StreamRig) -> None:
    """As after a failover, until the other server is back: it refuses every write."""
    await rig.redis.config_set("min-replicas-to-write", 1)
    try:
        (refused,) = await rig.send(provider := rig.provider(), "ada")
    finally:
        await rig.redis.config_set("min-replicas-to-write", 0)

    assert isinstance(refused, Defer)
    assert (refused.code, refused.pauses) == (rig.failed, True)
    assert refused.detail.startswith("NOREPLICAS ")
    assert [type(each) for each in await rig.send(provider, "ada")] == [Sent]


async def test_a_server_that_does_not_answer_is_a_retry_of_what_may_have_been_appended(
    rig: StreamRig,
) -> None:
    provider = rig.provider(timeout=0.2)
    await rig.send(provider, "warm")
    await rig.redis.client_pause(PAUSE_MS, all=False)
    try:
        outcomes = await rig.send(provider, "ada", "bob")
    finally:
        await rig.redis.client_unpause()

    detail = "TimeoutError: no answer, so the entry may have been appended"
    assert outcomes == [Retry(rig.failed, detail, uncertain=True)] * 2
    assert [type(each) for each in await rig.send(provider, "ada")] == [Sent]


async def test_a_handshake_that_timed_out_is_not_taken_for_a_connection(
    rig: StreamRig, redis_server: RedisServer
) -> None:
    """Its answers may come late, and the database was not selected yet."""
    database = f"{redis_server.url.removesuffix('/0')}/1"
    provider = rig.provider(url=database, timeout=0.3)
    redis_server.freeze()
    try:
        (lost,) = await rig.send(provider, "lost")
    finally:
        redis_server.thaw()
    (outcome,) = await rig.send(provider, "ada")

    assert lost == Defer(rig.failed, REST, "TimeoutError: nothing was sent to Redis")
    assert isinstance(outcome, Sent)
    assert await rig.appended() == []
    async with Redis.from_url(database) as other:
        entries: Any = await other.xrange(rig.stream)
    assert [entry_id.decode() for entry_id, _ in entries] == [outcome.message_id]


async def test_a_cancelled_batch_leaves_no_answer_to_the_next(rig: StreamRig) -> None:
    provider = rig.provider(timeout=30.0)
    await rig.send(provider, "warm")
    await rig.redis.client_pause(PAUSE_MS, all=False)
    try:
        sending = asyncio.create_task(rig.send(provider, "ada", "bob"))
        await found(lambda: blocked(rig.redis))
        assert sends_under_way() == []
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
    finally:
        await rig.redis.client_unpause()

    (outcome,) = await rig.send(provider, "cleo")

    assert isinstance(outcome, Sent)
    (last,) = [entry_id for entry_id, fields in await rig.entries() if b"cleo" in fields[rig.identity]]
    assert outcome.message_id == last


async def test_a_reset_among_the_answers_costs_only_those_without_one(rig: StreamRig) -> None:
    async with Proxy(rig.address) as proxy:
        provider = rig.provider(url=rig.through(proxy.url))
        await rig.send(provider, "warm")
        proxy.reset_after(100)

        outcomes = await rig.send(provider, *(f"u{number}" for number in range(20)))

        appended = await rig.appended()
        answered = [type(outcome) for outcome in outcomes].count(Sent)
        assert 0 < answered < 20
        assert [type(outcome) for outcome in outcomes] == [Sent] * answered + [Retry] * (20 - answered)
        assert appended[1 : answered + 1] == [f"u{number}" for number in range(answered)]
        assert [type(each) for each in await rig.send(provider, "next")] == [Sent]


async def test_a_server_that_went_away_is_a_retry_until_it_is_back(rig: StreamRig) -> None:
    async with Proxy(rig.address) as proxy:
        provider = rig.provider(url=rig.through(proxy.url))
        await rig.send(provider, "ada")
        proxy.refuse()
        proxy.reset()
        await until(lambda: proxy.open == 0)

        lost = await rig.send(provider, "bob", "cleo")
        away = await rig.send(provider, "bob", "cleo")
        await proxy.listen()
        back = await rig.send(provider, "bob", "cleo")

    assert [type(each) for each in lost] == [Retry] * 2
    assert away == [Defer(rig.failed, REST, "ConnectionError: nothing was sent to Redis")] * 2
    assert [type(each) for each in back] == [Sent] * 2
    assert await rig.appended() == ["ada", "bob", "cleo"]


async def test_a_closed_provider_holds_no_connection(rig: StreamRig) -> None:
    async with Proxy(rig.address) as proxy:
        provider = rig.provider(url=rig.through(proxy.url))
        await rig.send(provider, "ada")
        assert proxy.open == 1

        await provider.aclose()

        await until(lambda: proxy.open == 0)


async def test_a_password_and_a_target_show_up_nowhere(rig: StreamRig) -> None:
    secret = "s3cret-pass"
    host = rig.through(rig.url).removeprefix("redis://")
    provider = rig.provider(url=f"redis://:{secret}@{host}")

    with structlog.testing.capture_logs() as lines:
        (outcome,) = await rig.send(provider, "ada@example.org")

    assert isinstance(outcome, Defer)
    assert (outcome.code, outcome.pauses, outcome.alarm) == (rig.failed, True, True)
    told = repr([outcome, provider, lines, rig.message("ada@example.org")])
    assert secret not in told
    assert "ada@example.org" not in told


UNKNOWN = "InvalidResponse: no answer, so the entry may have been appended"


@pytest.mark.parametrize(
    ("answer", "kind", "detail"),
    [
        (b"-LOADING Redis is loading\r\n", Defer, "LOADING: Redis reads its data after a start"),
        (b":5\r\n", Retry, UNKNOWN),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", Retry, UNKNOWN),
    ],
)
async def test_whatever_answers_in_the_place_of_redis_speaks_against_the_server(
    rig: StreamRig, answer: bytes, kind: type, detail: str
) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while received := await reader.read(65_536):
            # The client library introduces itself first.
            writer.write(b"+OK\r\n" * received.count(b"SETINFO") or answer)
            await writer.drain()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        host, port = server.sockets[0].getsockname()
        provider = rig.provider(url=f"redis://{host}:{port}/0")
        outcomes = await rig.send(provider, "ada", "bob")
        await provider.aclose()

    assert [type(outcome) for outcome in outcomes] == [kind] * 2
    assert {(outcome.code, outcome.detail) for outcome in outcomes if not isinstance(outcome, Sent)} == {
        (rig.failed, detail)
    }
