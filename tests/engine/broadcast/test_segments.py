"""Segments: uploaded line by line, replaced as a whole, and deleted when nothing reads them."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from tests.engine.broadcast import broadcasting
from tests.engine.broadcast.broadcasting import accept, add_people, add_segment, expand, parts, reached
from tests.engine.stage import Stage
from tests.store.locks import waits_for_a_lock
from tests.waiting import found
from tocsin.domain.intent import Audience
from tocsin.engine.broadcast import segments as uploading
from tocsin.engine.broadcast.segments import (
    LONGEST_LINE,
    MOST_FAULTS,
    SegmentFaultsError,
    SegmentSweep,
    Uploader,
)
from tocsin.engine.retention.erase import Eraser
from tocsin.engine.retention.export import Exporter
from tocsin.store.broadcasts import broadcasts, segments
from tocsin.store.broadcasts.segments import TooManySegmentsError, UploadLostError


async def members(stage: Stage, name: str = "vip", org_id: str | None = None) -> list[str]:
    row = await segments.find(stage.pool, name, org_id)
    assert row is not None
    there = await stage.pool.fetch("select user_id from segment_members where segment_id = $1", row.id)
    assert len(there) == row.members
    return sorted(each["user_id"] for each in there)


async def test_lines_are_split_wherever_the_stream_is(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploading, "BATCH", 2)
    text = (
        '{"user_id": "ada"}\n\n{"user_id": 7}\r\n{"user_id": "çağri"}\n{"user_id": "ada"}\n{"user_id":"eve"}'
    )
    for size in (1, 7, 1_000):
        cut = [text.encode()[start : start + size] for start in range(0, len(text.encode()), size)]
        row = await Uploader(stage.pool, stage.clock).upload("vip", parts(*cut))

        assert (row.name, row.members) == ("vip", 4)
        assert await members(stage) == ["7", "ada", "eve", "çağri"]


async def test_faults_are_told_by_line_and_the_segment_stays(stage: Stage) -> None:
    await add_segment(stage, "vip", ["ada"])
    lines = [
        '{"user_id": "bob"}', '{"user": "bob"}', "[]", "{", '{"user_id": ""}', '{"user_id": "a", "b": 1}',
        '{"user_id": "' + "x" * LONGEST_LINE + '"}', "\udcff", '{"user_id": "a\\u0000"}',
        '{"user_id": "\\ud800"}',
    ]  # fmt: skip
    body = "\n".join(lines).encode(errors="surrogateescape")

    with pytest.raises(SegmentFaultsError) as refused:
        await Uploader(stage.pool, stage.clock).upload("vip", parts(body))
    with pytest.raises(SegmentFaultsError) as many:
        await Uploader(stage.pool, stage.clock).upload("vip", parts("x\n" * 200_000))

    assert [fault.field for fault in refused.value.faults] == [f"line {number}" for number in range(2, 11)]
    assert len(many.value.faults) == MOST_FAULTS
    assert await members(stage) == ["ada"]
    assert await stage.pool.fetchval("select count(*) from segments where state = 'uploading'") == 0


async def test_an_upload_of_an_organisation_has_its_own_people_alone(stage: Stage) -> None:
    await add_people(stage, ["ada"], "north")
    await add_people(stage, ["eve"], "south")

    with pytest.raises(SegmentFaultsError) as refused:
        await add_segment(stage, "vip", ["ada", "eve", "unknown"], "north")
    await add_segment(stage, "vip", ["ada"], "north")
    await add_segment(stage, "vip", ["eve", "unknown"])

    assert [fault.field for fault in refused.value.faults] == ["line 2", "line 3"]
    assert await members(stage, org_id="north") == ["ada"]
    assert await members(stage) == ["eve", "unknown"]
    assert [(row.org_id, row.members) for row in await segments.list_all(stage.pool)] == [
        (None, 2),
        ("north", 1),
    ]
    assert [row.org_id for row in await segments.list_all(stage.pool, "north")] == ["north"]


async def test_there_is_a_limit_to_the_number_of_segments(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segments, "MOST_SEGMENTS", 1)
    await add_segment(stage, "vip", ["ada"])

    with pytest.raises(TooManySegmentsError):
        await add_segment(stage, "other", ["ada"])
    await add_segment(stage, "vip", ["bob"])

    assert await members(stage) == ["bob"]


async def test_a_stream_that_breaks_changes_nothing(stage: Stage) -> None:
    await add_segment(stage, "vip", ["ada"])

    async def broken() -> AsyncIterator[bytes]:
        yield b'{"user_id": "bob"}\n'
        raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        await Uploader(stage.pool, stage.clock).upload("vip", broken())

    assert await members(stage) == ["ada"]


async def test_uploads_at_the_same_time_leave_one_of_them(stage: Stage) -> None:
    await asyncio.gather(*(add_segment(stage, "vip", [f"user{number}"]) for number in range(5)))

    assert len(await members(stage)) == 1
    assert await stage.pool.fetchval("select count(*) from segments where state = 'current'") == 1


async def test_what_nothing_reads_is_swept(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "SWEPT", 2)
    sweep = SegmentSweep(stage.pool, stage.clock)
    await add_segment(stage, "vip", ["ada", "bob", "eve"])
    notification_id = await accept(stage, Audience(segment="vip"))
    abandoned = await segments.begin(stage.pool, "half", None, stage.clock())
    await add_segment(stage, "vip", ["zoe"])
    assert await segments.delete(stage.pool, "absent", None, stage.clock()) is False

    stage.clock.advance(timedelta(minutes=30))
    assert not await sweep.sweep()
    await expand(stage, notification_id)
    while await sweep.sweep():
        pass
    kept = await stage.pool.fetchval("select count(*) from segments")
    stage.clock.advance(timedelta(hours=1))
    while await sweep.sweep():
        pass

    assert kept == 2
    assert await reached(stage, notification_id) == ["ada", "bob", "eve"]
    assert await stage.pool.fetchval("select count(*) from segment_members") == 1
    assert await stage.pool.fetchval("select array_agg(name) from segments") == ["vip"]
    async with stage.pool.acquire() as connection:
        with pytest.raises(UploadLostError):
            await segments.add(connection, abandoned, ["late"], stage.clock())


async def test_a_person_is_exported_and_erased_with_their_segments(stage: Stage) -> None:
    await add_people(stage, ["ada"], "north")
    await add_segment(stage, "vip", ["ada", "bob"])
    await add_segment(stage, "own", ["ada"], "north")
    exported = b"".join([part async for part in Exporter(stage.pool, None).export("ada", stage.clock())])

    await Eraser(stage.pool, None, stage.clock).erase("ada", "op", "north")
    within = await members(stage), await members(stage, "own", "north")
    await Eraser(stage.pool, None, stage.clock).erase("ada", "op")

    assert b'"segments":["own","vip"]' in exported
    assert within == (["ada", "bob"], [])
    assert await members(stage) == ["bob"]


async def test_whoever_is_erased_while_a_broadcast_is_expanded_is_not_reached(stage: Stage) -> None:
    everybody = [f"user{number:02}" for number in range(60)]
    await add_people(stage, everybody)
    eraser = Eraser(stage.pool, stage.catalog, stage.clock)
    notification_id = await accept(stage, payload={})
    await expand(stage, notification_id, steps=2)
    at = (await broadcasting.progress(stage, notification_id)).position

    early, current, late = [await eraser.erase(each, "op") for each in ("user00", at, "user50")]
    row = await expand(stage, notification_id)

    assert [(each.state, each.cancelled) for each in (early, current, late)] == [
        ("finished", 1), ("unfinished", 1), ("finished", 0),
    ]  # fmt: skip
    left = set(everybody) - {"user00", at, "user50"}
    assert set(await reached(stage, notification_id)) - {"None"} == left
    assert (row.state, row.position) == ("finished", "")
    assert (await eraser.erase(at, "op")).state == "finished"
    assert await stage.pool.fetchval("select cancelled_at is null and audience <> '{}' from notifications")


async def test_an_erasure_waits_for_the_chunk_that_has_the_person(stage: Stage) -> None:
    await add_people(stage, ["ada", "bob"])
    await accept(stage)
    async with stage.pool.acquire() as connection, connection.transaction():
        assert await broadcasts.take(connection)
        erasing = asyncio.create_task(Eraser(stage.pool, stage.catalog, stage.clock).erase("ada", "op"))
        await found(lambda: waits_for_a_lock(stage.pool))
        await connection.execute(
            "insert into deliveries (id, notification_id, channel, user_id, state, due_at, created_at)"
            " select gen_random_uuid(), id, 'push', 'ada', 'pending', now(), now() from notifications"
        )
    erased = await erasing

    assert (erased.deliveries, erased.cancelled, erased.payloads) == (1, 1, 0)
