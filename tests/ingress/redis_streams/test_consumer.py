import asyncio
from typing import Any
from unittest import mock

import msgspec
import pytest
from redis.exceptions import OutOfMemoryError, ResponseError
from structlog.testing import capture_logs

from tests.ingress.redis_streams.conftest import QUICK, STREAM, Galaxy
from tests.waiting import found, until
from tocsin.ingress.redis_streams import consumer as module
from tocsin.providers.redis_streams.answers import error_word
from tocsin.store.sources import stream_offsets
from tocsin.store.sources.stream_offsets import move


async def test_entries_become_notifications_known_by_their_entry_id(galaxy: Galaxy) -> None:
    first = await galaxy.append("ada", "bob", key="1", request_id="r-1", trace_id="")
    async with galaxy.consuming():
        await galaxy.reaches(first)
        second = await galaxy.append("ada", key="2", producer="game_master")
        await galaxy.reaches(second)

    assert [(row["external_id"], row["producer"]) for row in await galaxy.notifications()] == [
        (first, "game_lobby"),
        (second, "game_master"),
    ]
    assert await galaxy.pool.fetchval("select count(*) from deliveries where user_id = 'ada'") == 2
    stored = await galaxy.pool.fetchrow("select request_id, trace_id from notifications order by id limit 1")
    assert tuple(stored) == ("r-1", None)


async def test_reading_continues_after_the_stored_offset(galaxy: Galaxy) -> None:
    async with galaxy.consuming():
        await galaxy.reaches(await galaxy.append(key="1"))
    last = await galaxy.append(key="2")
    async with galaxy.consuming():
        await galaxy.reaches(last)

    assert [row["idempotency_key"] for row in await galaxy.notifications()] == ["1", "2"]
    assert not await galaxy.refused()


async def test_a_duplicate_is_accepted_once_and_a_conflict_refused(galaxy: Galaxy) -> None:
    first = await galaxy.append("ada", "bob", payload_json='{"customer_name":"Ali","customer_id":"7"}')
    await galaxy.append(
        "bob", "ada", payload_json='{ "customer_id" : "7", "customer_name" : "Ali" }', request_id="other"
    )
    conflicting = await galaxy.append("ada", payload_json='{"customer_name":"Veli"}')
    async with galaxy.consuming():
        await galaxy.reaches(conflicting)

    (stored,) = await galaxy.notifications()
    (refusal,) = await galaxy.refused()
    assert stored["external_id"] == first
    assert (refusal["code"], refusal["producer"]) == ("idempotency_conflict", "game_lobby")
    assert refusal["content"]["stream_entry_id"] == conflicting
    assert refusal["content"]["fields"]["payload_json"] == '{"customer_name":"Veli"}'


@pytest.mark.usefixtures("odd_key_fails")
async def test_an_entry_that_cannot_be_stored_is_refused_alone(galaxy: Galaxy) -> None:
    for key in ("1", "2", "odd", "3"):
        last = await galaxy.append(key=key)
    async with galaxy.consuming():
        await galaxy.reaches(last)

    assert [row["idempotency_key"] for row in await galaxy.notifications()] == ["1", "2", "3"]
    (refusal,) = await galaxy.refused()
    assert refusal["faults"][0]["code"] == "not_storable"
    assert refusal["content"]["fields"]["idempotency_key"] == "odd"


async def test_neither_a_crash_before_nor_after_the_write_loses_or_repeats(galaxy: Galaxy) -> None:
    """The offset moves with what it stands for, or not at all."""
    last = await galaxy.append(key="1")
    with (
        mock.patch.object(module, "accept_sourced_within", side_effect=KeyError("bug")),
        pytest.raises(KeyError),
    ):
        async with galaxy.consuming() as task:
            await asyncio.wait([task])
    assert await galaxy.offset() == "0-0"

    await galaxy.pool.execute("update stream_offsets set lease = null")
    async with galaxy.consuming():
        await galaxy.reaches(last)
    assert len(await galaxy.notifications()) == 1


async def test_one_of_several_readers_reads_and_another_takes_over(galaxy: Galaxy) -> None:
    async with galaxy.consuming() as first, galaxy.consuming():
        await galaxy.reaches(await galaxy.append(key="1"))
        first.cancel()
        await asyncio.wait([first])
        await galaxy.reaches(await galaxy.append(key="2"))

    assert len(await galaxy.notifications()) == 2
    assert not await galaxy.refused()


@pytest.mark.parametrize("change", ["lease = gen_random_uuid()", "entry_id = '1-1'"])
async def test_a_reader_that_another_has_replaced_writes_nothing(galaxy: Galaxy, change: str) -> None:
    """Not even if it has its lease again: the other one has read on meanwhile."""
    await galaxy.append(key="1")
    moved = asyncio.Event()

    async def steal(*args: Any, **kwargs: Any) -> bool:
        if not moved.is_set():
            moved.set()
            await galaxy.pool.execute(
                f"update stream_offsets set {change}, leased_until = now() + interval '1 hour'"  # noqa: S608
            )
        return await move(*args, **kwargs)

    with mock.patch.object(stream_offsets, "move", steal):
        async with galaxy.consuming():
            await moved.wait()
            await asyncio.sleep(0.2)
            if "lease" in change.partition(" ")[0]:
                assert not await galaxy.notifications()
            else:
                # It looks again where the other one ended.
                await galaxy.reaches(await galaxy.append(key="2"))

    assert len(await galaxy.notifications()) == (0 if "lease" in change.partition(" ")[0] else 2)


async def test_redis_that_comes_back_is_read_on(galaxy: Galaxy) -> None:
    async with galaxy.consuming():
        await galaxy.reaches(await galaxy.append(key="1"))
        await galaxy.server.kill()
        assert "tries in a row failed" in await galaxy.alarm("redis_unreachable")
        await galaxy.server.start()
        await galaxy.reaches(await galaxy.append(key="2"))

        async def cleared() -> bool:
            standing = "select count(*) from alarms where cleared_at is null"
            return bool(await galaxy.pool.fetchval(standing) == 0)

        await found(cleared)
    assert len(await galaxy.notifications()) == 2


async def test_an_answer_of_redis_that_is_an_error_is_in_the_alarm(galaxy: Galaxy) -> None:
    await galaxy.redis.set(STREAM, "no stream")
    with capture_logs() as lines:
        async with galaxy.consuming():
            detail = await galaxy.alarm("redis_unreachable")
            await galaxy.redis.delete(STREAM)
            await galaxy.reaches(await galaxy.append(key="1"))
            await until(lambda: any(line["event"] == "duty recovered" for line in lines))

    assert detail == "3 tries in a row failed: Redis answered with WRONGTYPE"
    (recovered,) = [line for line in lines if line["event"] == "duty recovered"]
    assert (recovered["duty"], recovered["subject"]) == ("stream consumer", "galaxy")
    assert recovered["failures"] >= 3


@pytest.mark.parametrize(
    ("error", "word"),
    [
        (OutOfMemoryError("command not allowed when used memory > 'maxmemory'."), "OOM"),
        (ResponseError("MISCONF Redis is configured to save RDB snapshots"), "MISCONF"),
        (ResponseError("unknown command"), "ERR"),
        (ResponseError("X" * 1_000), "X" * 20),
    ],
)
def test_the_word_of_an_error_is_short(error: ResponseError, word: str) -> None:
    assert error_word(error) == word


async def test_a_full_server_is_read_on(galaxy: Galaxy) -> None:
    """What it has must be read before somebody can trim it."""
    last = await galaxy.append(key="1")
    await galaxy.redis.config_set("maxmemory", 1)
    try:
        async with galaxy.consuming():
            await galaxy.reaches(last)
    finally:
        await galaxy.redis.config_set("maxmemory", 0)

    assert [row["external_id"] for row in await galaxy.notifications()] == [last]


async def test_what_was_trimmed_before_it_was_read_raises_an_alarm(galaxy: Galaxy) -> None:
    async with galaxy.consuming():
        await galaxy.reaches(await galaxy.append(key="1"))
    for key in ("2", "3", "4"):
        last = await galaxy.append(key=key)
    await galaxy.redis.xtrim(STREAM, maxlen=1, approximate=False)
    async with galaxy.consuming():
        detail = await galaxy.alarm("entries_lost")
        await galaxy.reaches(last)

    # Redis before 7 does not count what was ever added.
    assert detail.startswith(("lost an unknown number of entries: ", "lost 2 entries: "))
    assert [row["idempotency_key"] for row in await galaxy.notifications()] == ["1", "4"]


async def test_a_stream_that_was_trimmed_to_nothing_raises_an_alarm(galaxy: Galaxy) -> None:
    async with galaxy.consuming():
        await galaxy.reaches(await galaxy.append(key="1"))
    lost = await galaxy.append(key="2")
    await galaxy.redis.xtrim(STREAM, maxlen=0, approximate=False)
    async with galaxy.consuming():
        await galaxy.alarm("entries_lost")
        await galaxy.reaches(lost)
        await galaxy.reaches(await galaxy.append(key="3"))

    assert [row["idempotency_key"] for row in await galaxy.notifications()] == ["1", "3"]


async def test_a_stream_that_began_anew_is_read_from_its_start(galaxy: Galaxy) -> None:
    async with galaxy.consuming():
        await galaxy.reaches(await galaxy.append(key="1"))
        await galaxy.redis.delete(STREAM)
        assert "there is no stream" in await galaxy.alarm("entries_lost")
        await galaxy.redis.xadd(STREAM, {"producer": "restored"}, id="5-1")
        await galaxy.reaches("5-1")

    (refusal,) = await galaxy.refused()
    assert refusal["producer"] == "restored"


async def test_a_stream_that_comes_back_is_read_on(galaxy: Galaxy) -> None:
    async with galaxy.consuming():
        last = await galaxy.append(key="1", payload_json="[]")
        await galaxy.reaches(last)
        await galaxy.redis.rename(STREAM, "elsewhere")
        await galaxy.alarm("entries_lost")
        assert await galaxy.offset() == last
        await galaxy.redis.rename("elsewhere", STREAM)
        await galaxy.reaches(await galaxy.append(key="2"))

    assert len(await galaxy.refused()) == 1


async def test_another_key_is_another_stream(galaxy: Galaxy) -> None:
    async with galaxy.consuming():
        await galaxy.reaches(await galaxy.append(key="1"))
    older = await galaxy.server.append("other", key="2")
    async with galaxy.consuming(msgspec.structs.replace(QUICK, stream="other")):
        await galaxy.reaches(older, "other")

    assert len(await galaxy.notifications()) == 2


async def test_an_entry_of_very_many_fields_does_not_stop_those_behind_it(galaxy: Galaxy) -> None:
    many: Any = {f"f{number}": "" for number in range(100_000)}
    await galaxy.redis.xadd(STREAM, many)
    async with galaxy.consuming():
        await galaxy.reaches(await galaxy.append(key="1"))

    (refusal,) = await galaxy.refused()
    assert refusal["faults"][0]["code"] == "too_large"


async def test_an_alarm_of_a_reader_that_died_is_cleared_by_the_next(galaxy: Galaxy) -> None:
    await galaxy.append(key="1")
    async with galaxy.consuming():
        await galaxy.server.kill()
        await galaxy.alarm("redis_unreachable")
    await galaxy.server.start()
    async with galaxy.consuming():
        await galaxy.reaches(await galaxy.append(key="2"))

    assert await galaxy.pool.fetchval("select count(*) from alarms where cleared_at is null") == 0


async def test_trimming_what_was_read_is_no_loss(galaxy: Galaxy) -> None:
    async with galaxy.consuming():
        for key in ("1", "2", "3"):
            last = await galaxy.append(key=key)
        await galaxy.reaches(last)
        await galaxy.redis.xtrim(STREAM, maxlen=0, approximate=False)
        await asyncio.sleep(3 * QUICK.block_seconds)

    assert await galaxy.pool.fetchval("select count(*) from alarms") == 0
