"""Rows of an organisation: they are published to people of it, or not at all."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from tests.aws.publisher.office import TABLE, Office, Publishing, envelope
from tests.aws.publisher.stand_in import StandInTopic, twice
from tests.catalogs import shipped
from tests.engine.stage import MovableClock
from tests.rows import add_user
from tests.waiting import found
from tocsin.api.settings import AuthSettings
from tocsin.compose.relays import open_publishers
from tocsin.domain.delivery.backoff import Exponential
from tocsin.ingress.outbox.handler import RowsBlockedError
from tocsin.ingress.outbox.rows import Failed, Published, Row
from tocsin.settings.tree import Settings
from tocsin.store.pool import Pool


@pytest.fixture(autouse=True)
async def people(pool: Pool) -> None:
    for user, org_id in {"ada": "org-1", "bob": "org-1", "cid": "org-2", "dan": None, "eve": "7"}.items():
        await add_user(pool, user, org_id=org_id)


async def test_a_bound_outbox_publishes_to_people_of_its_organisation_alone(
    office: Office, publishing: Publishing, topic: StandInTopic
) -> None:
    written = await office.write(
        envelope("ada", "cid"),
        envelope("ada", "nobody", org_id=None),
        envelope("dan"),
        envelope(recipients=[]),
        envelope("ada", org_id="org-2"),
        envelope("ada", "bob"),
        envelope("ada", org_id=None),
    )
    ids = await office.ids()
    async with publishing.running(publishing.settings(org_id="org-1")):
        failed = [await office.failed(row_id, 1, TABLE) for row_id in ids[:5]]
        await found(lambda: _is_published(office, ids[6]))

    errors = [row["last_error"] for row in failed]
    assert "recipients: has 1 who are not people of the organisation: cid" in errors[0]
    assert errors[1] == errors[0].replace("cid", "nobody")
    assert errors[2] == errors[0].replace("cid", "dan")
    assert "recipients: must be listed" in errors[3]
    assert "not the organisation of the outbox" in errors[4]
    # No refused row holds anybody back.
    assert topic.events("user-ada") == written[5:]
    assert topic.events("user-bob") == [written[5]]
    assert len(topic.messages) == 3
    assert {each.envelope["org_id"] for each in topic.messages} == {"org-1"}
    assert await office.waiting(TABLE) == ids[:5]


async def test_an_envelope_is_held_to_the_organisation_that_it_names(
    office: Office, publishing: Publishing, topic: StandInTopic
) -> None:
    written = await office.write(
        envelope("ada", org_id="org-2"),
        envelope("ada", "bob"),
        envelope("eve", org_id=7),
        envelope("ada", "nobody", org_id=None),
        envelope(recipients=[], org_id=None),
    )
    ids = await office.ids()
    async with publishing.running(org_scoping=True):
        await office.failed(ids[0], 1, TABLE)
        await found(lambda: _is_published(office, ids[4]))

    assert await office.waiting(TABLE) == ids[:1]
    assert topic.events("user-ada") == [written[1], written[3]]
    assert topic.events("user-eve") == [written[2]]
    assert topic.events("broadcast") == [written[4]]


async def test_without_organisations_nobody_is_looked_up(
    office: Office, publishing: Publishing, topic: StandInTopic
) -> None:
    await publishing.pool.execute("alter table users rename to absent")
    written = await office.write(envelope("ada"), envelope("nobody"))
    async with publishing.running():
        await office.done()

    assert [each.event for each in topic.messages] == written


async def test_a_round_waits_while_the_directory_cannot_be_read(
    office: Office, publishing: Publishing, topic: StandInTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    pause = timedelta(seconds=0.02)
    monkeypatch.setattr("tocsin.ingress.outbox.relay.BACKOFF", Exponential(pause, pause))
    await publishing.pool.execute("alter table users rename to absent")
    events = await office.write(envelope("ada"), envelope("ada", "bob"))
    async with publishing.running(org_scoping=True) as publisher:
        with pytest.raises(RowsBlockedError, match="database"):
            await publisher.handle([row(envelope("ada"))], [])
        assert not topic.messages
        await publishing.pool.execute("alter table absent rename to users")
        await office.done()

    assert topic.events("user-ada") == events
    assert [each["failed_attempts"] for each in await office.rows(TABLE)] == [0, 0]


async def test_who_left_while_a_message_waited_is_not_reached_and_holds_back_nobody(
    office: Office, publishing: Publishing, topic: StandInTopic
) -> None:
    [first] = await office.write(envelope("ada", "bob"))
    [row_id] = await office.ids()
    topic.refuse = lambda group, _: "InternalError" if group == "user-ada" else None
    async with publishing.running(org_scoping=True):
        await office.failed(row_id, 1, TABLE)
        topic.refuse = lambda *_: None
        await publishing.pool.execute("update users set org_id = 'org-2' where user_id = 'ada'")
        publishing.clock.advance(timedelta(minutes=2))
        failed = await office.failed(row_id, 2, TABLE)
        assert "not people of the organisation: ada" in failed["last_error"]
        [second] = await office.write(envelope("ada", org_id="org-2"))
        await found(lambda: _has(topic, "user-ada", second))

        await publishing.pool.execute("update users set org_id = 'org-1' where user_id = 'ada'")
        publishing.clock.advance(timedelta(minutes=10))
        await office.done()

    assert topic.events("user-ada") == [second, first]
    assert topic.events("user-bob") == [first]
    assert not twice(topic.messages)
    assert not await publishing.publications()


@pytest.mark.parametrize("scoping", [True, False])
async def test_the_settings_decide_whether_envelopes_are_held_to_organisations(
    pool: Pool, publishing: Publishing, topic: StandInTopic, clock: MovableClock, *, scoping: bool
) -> None:
    settings = Settings(
        outboxes={"office": publishing.settings()},
        auth=AuthSettings(org_scoping=scoping),
        aws=publishing.aws,
    )
    async with open_publishers(settings, shipped(), pool, clock) as publishers:
        handled = await publishers["office"].handle([row(envelope("cid"))], [])

    assert [type(result) for result in handled.results] == [Failed if scoping else Published]
    assert len(topic.messages) == (0 if scoping else 1)


def row(content: dict[str, Any]) -> Row:
    return Row(
        id=100,
        payload=msgspec.json.encode(content).decode(),
        type=None,
        ordering_key=None,
        failed_attempts=0,
    )


async def _has(topic: StandInTopic, group: str, event: str) -> bool:
    return event in topic.events(group)


async def _is_published(office: Office, row_id: int) -> bool:
    return (await office.row(row_id, TABLE))["published_at"] is not None
