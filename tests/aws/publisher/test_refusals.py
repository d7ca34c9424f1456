"""What SNS refuses: it holds back its recipient alone, is retried down the ladder, and is never overtaken."""

from datetime import timedelta
from typing import Any

import pytest

from tests.aws.publisher.office import FIFO, STANDARD, TABLE, Office, Publishing, envelope
from tests.aws.publisher.stand_in import StandInTopic, twice
from tests.waiting import found

AN_HOUR = timedelta(hours=1)


def refusing(*refused: tuple[str, str]) -> Any:
    """Refuse events for recipients."""
    return lambda group, content: "InternalError" if (group, content["event_id"]) in refused else None


async def _due(office: Office, publishing: Publishing) -> None:
    """Let the time come at which every row is due."""

    async def recorded() -> Any:
        times = [row["next_retry_at"] for row in await office.rows(TABLE) if row["published_at"] is None]
        return None if None in times else times

    latest = max(await found(recorded))
    publishing.clock.advance(latest - publishing.clock() + timedelta(seconds=1))


async def test_a_refused_message_holds_back_its_recipient_alone(
    office: Office, publishing: Publishing, topic: StandInTopic
) -> None:
    first, second, third = await office.write(
        envelope("ada", "bob"), envelope("ada", "cid"), envelope("bob", "cid")
    )
    topic.refuse = refusing(("user-ada", first))
    ids = await office.ids()
    async with publishing.running():
        failed = await office.failed(ids[0], 1, TABLE)
        await found(lambda: _is_held(office, ids[1]))
        assert "1 of 2 recipients (InternalError)" in failed["last_error"]
        assert await office.waiting(TABLE) == ids[:2]
        assert topic.events("user-bob") == [first, third]
        assert topic.events("user-cid") == [second, third]
        assert topic.events("user-ada") == []

        [fourth] = await office.write(envelope("ada", "dan"))
        await found(lambda: _has(topic, "user-dan", fourth))
        assert topic.events("user-ada") == []

        topic.refuse = refusing()
        await _due(office, publishing)
        await office.done()

    assert topic.events("user-ada") == [first, second, fourth]
    assert (await office.row(ids[1], TABLE))["failed_attempts"] == 0
    assert not twice(topic.messages)
    assert not await publishing.publications()


@pytest.mark.parametrize("arn", [FIFO, STANDARD])
async def test_long_after_the_window_only_those_who_got_nothing_get_it(
    office: Office, publishing: Publishing, topic: StandInTopic, arn: str
) -> None:
    people = [f"user-{number}" for number in range(25)]
    [event] = await office.write(envelope(*people))
    [row_id] = await office.ids()
    topic.refuse = lambda _, content: "Throttled" if content["recipients"] == ["user-7"] else None
    async with publishing.running(publishing.settings(arn)):
        for attempt in range(1, 6):
            await office.failed(row_id, attempt, TABLE)
            assert len(topic.messages) == 24
            await _due(office, publishing)
            publishing.clock.advance(AN_HOUR)
        topic.refuse = lambda _, __: None
        await _due(office, publishing)
        await office.done()

    assert sorted(message.envelope["recipients"][0] for message in topic.messages) == sorted(people)
    assert {message.event for message in topic.messages} == {event}
    assert topic.duplicates == 0
    assert not await publishing.publications()


async def test_a_refused_row_goes_down_the_ladder_and_raises_an_alarm(
    office: Office, publishing: Publishing, topic: StandInTopic
) -> None:
    await office.write(envelope("ada"))
    [row_id] = await office.ids()
    topic.refuse = lambda _, __: "InternalError"
    waits = []
    async with publishing.running():
        for attempt in range(1, 8):
            before = publishing.clock()
            row = await office.failed(row_id, attempt, TABLE)
            waits.append((row["next_retry_at"] - before + timedelta(seconds=30)) // timedelta(minutes=1))
            alarms = await publishing.pool.fetch("select provider, code, count from alarms")
            assert len(alarms) == (attempt >= 5)
            await _due(office, publishing)

    assert waits == [1, 5, 15, 60, 360, 1440, 1440]
    assert [tuple(alarm) for alarm in alarms] == [("outbox:office", "row_refused", 3)]


async def test_a_row_that_is_no_envelope_stops_no_other(
    office: Office, publishing: Publishing, topic: StandInTopic
) -> None:
    large = envelope("ada", body="é" * 9_000, extras={"text": "x" * 250_000})
    _, _, good = await office.write(envelope("ada", title="", body=""), large, envelope("ada"))
    bad, too_large, _ = await office.ids()
    async with publishing.running():
        assert "must have a title or a body" in (await office.failed(bad, 1, TABLE))["last_error"]
        assert "262144 bytes" in (await office.failed(too_large, 1, TABLE))["last_error"]
        await found(lambda: _has(topic, "user-ada", good))


async def test_a_row_that_is_nested_too_deep_stops_no_other(
    office: Office, publishing: Publishing, topic: StandInTopic
) -> None:
    """Decoded with little on the stack, it could not be encoded later with more on it."""
    extras: dict[str, Any] = {}
    for _ in range(70):
        extras = {"deeper": extras}
    _, good = await office.write(envelope("ada", extras=extras), envelope("ada"))
    deep, _ = await office.ids()
    async with publishing.running():
        assert "deeper than 64 levels" in (await office.failed(deep, 1, TABLE))["last_error"]
        await found(lambda: _has(topic, "user-ada", good))


@pytest.mark.parametrize(("before", "after"), [(-7, 1), (2**31 - 1, 32_767)])
async def test_whatever_the_application_counts_a_refused_row_stops_no_other(
    office: Office, publishing: Publishing, topic: StandInTopic, before: int, after: int
) -> None:
    _, good = await office.write(envelope("ada", title="", body=""), envelope("ada"))
    bad, _ = await office.ids()
    await office.connection.execute(
        f"update {TABLE} set failed_attempts = $1 where id = $2",  # noqa: S608 - a table of this test
        before,
        bad,
    )
    async with publishing.running():
        await office.failed(bad, after, TABLE)
        await found(lambda: _has(topic, "user-ada", good))


async def test_one_entry_that_spoils_a_call_spoils_no_other(
    office: Office, publishing: Publishing, topic: StandInTopic
) -> None:
    events = await office.write(*(envelope(f"user-{number}") for number in range(10)))
    bad = events[3]
    topic.refuse_call = lambda batch: (
        "InvalidParameter" if any(each["event_id"] == bad for each in batch) else None
    )
    ids = await office.ids()
    async with publishing.running():
        row = await office.failed(ids[3], 1, TABLE)

    assert "InvalidParameter" in row["last_error"]
    assert await office.waiting(TABLE) == [ids[3]]
    assert {message.event for message in topic.messages} == set(events) - {bad}


async def test_a_deleted_row_holds_back_nobody(
    office: Office, publishing: Publishing, topic: StandInTopic
) -> None:
    first, second = await office.write(envelope("ada"), envelope("ada"))
    topic.refuse = refusing(("user-ada", first))
    ids = await office.ids()
    async with publishing.running():
        await office.failed(ids[0], 1, TABLE)
        await found(lambda: _is_held(office, ids[1]))
        await office.connection.execute(f"delete from {TABLE} where id = $1", ids[0])  # noqa: S608 - a table of this test
        await _due(office, publishing)
        await office.done()

    assert topic.events("user-ada") == [second]


async def test_a_row_that_is_held_for_other_times_than_the_first_is_not_in_its_way(
    office: Office, publishing: Publishing, topic: StandInTopic
) -> None:
    first, second = await office.write(envelope("ada"), envelope("ada"))
    topic.refuse = refusing(("user-ada", first))
    ids = await office.ids()
    async with publishing.running():
        await office.failed(ids[0], 1, TABLE)
        await found(lambda: _is_held(office, ids[1]))
        topic.refuse = refusing()
        # An operator retries the first now; the second is due an hour later.
        await office.connection.execute(
            f"update {TABLE} set next_retry_at = case id when $1 then null else $2::timestamptz end",  # noqa: S608 - a table of this test
            ids[0],
            publishing.clock() + AN_HOUR,
        )
        await found(lambda: _has(topic, "user-ada", first))
        [third] = await office.write(envelope("ada"))
        await found(lambda: _is_held(office, ids[1] + 1))
        await _due(office, publishing)
        await office.done()

    assert topic.events("user-ada") == [first, second, third]


async def test_several_relays_never_overtake_each_other(
    office: Office, publishing: Publishing, topic: StandInTopic
) -> None:
    events = await office.write(*(envelope("ada", f"user-{number % 3}") for number in range(40)))
    settings = publishing.settings(batch=3)
    async with publishing.running(settings), publishing.running(settings), publishing.running(settings):
        await office.done()

    assert topic.events("user-ada") == events
    for number in range(3):
        assert topic.events(f"user-user-{number}") == events[number::3]
    assert topic.duplicates == 0


async def test_a_row_that_the_application_has_locked_is_not_overtaken(
    office: Office, publishing: Publishing, topic: StandInTopic
) -> None:
    events = await office.write(envelope("ada"), envelope("ada"))
    ids = await office.ids()
    async with office.connection.transaction():
        await office.connection.execute(f"select from {TABLE} where id = $1 for update", ids[0])
        async with publishing.running():
            await found(lambda: _waits_for_a_lock(publishing))
    async with publishing.running():
        await office.done()

    assert topic.events("user-ada") == events


async def _is_held(office: Office, row_id: int) -> bool:
    row = await office.row(row_id, TABLE)
    return "waits behind" in (row["last_error"] or "")


async def _has(topic: StandInTopic, group: str, event: str) -> bool:
    return event in topic.events(group)


async def _waits_for_a_lock(publishing: Publishing) -> bool:
    waits: bool = await publishing.pool.fetchval(
        "select exists (select from pg_stat_activity where application_name = 'tocsin relay'"
        " and wait_event_type = 'Lock')"
    )
    return waits
