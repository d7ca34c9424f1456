"""What is no fault of a row: the topic, the network, Tocsin's database or the application's are away."""

import os
from datetime import timedelta
from pathlib import Path

import asyncpg
import pytest

from tests.aws.publisher.office import FIFO, TABLE, Office, Publishing, envelope
from tests.aws.publisher.stand_in import StandInTopic, twice
from tests.aws_servers import REGION
from tests.databases import SCHEMA
from tests.waiting import found, until
from tocsin.aws.publisher.calls import Topic, TopicUnavailableError
from tocsin.aws.publisher.messages import Message
from tocsin.domain.delivery.backoff import Exponential
from tocsin.providers.aws.clients import AwsClients
from tocsin.providers.aws.settings import AwsSettings
from tocsin.store.pool import PoolSettings, open_pool

AN_HOUR = timedelta(hours=1)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    pause = timedelta(seconds=0.02)
    monkeypatch.setattr("tocsin.ingress.outbox.relay.BACKOFF", Exponential(pause, pause))


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("Throttling", ""),
        ("AuthorizationError", ""),
        ("NotFound", ""),
        ("InternalFailure", ""),
        ("ExpiredToken", ""),
        ("InvalidParameter", "Invalid parameter: TopicArn Reason: no such topic here"),
    ],
)
async def test_a_topic_that_refuses_every_call_costs_no_attempt_and_raises_an_alarm(
    office: Office, publishing: Publishing, topic: StandInTopic, code: str, text: str
) -> None:
    events = await office.write(envelope("ada"), envelope("ada"))
    topic.refuse_call = lambda _: f"{code}: {text}"
    async with publishing.running():
        alarm = await found(lambda: publishing.pool.fetchrow("select provider, code, detail from alarms"))
        assert (alarm["provider"], alarm["code"]) == ("outbox:office", "topic_unavailable")
        assert code in alarm["detail"]
        topic.refuse_call = lambda _: None
        await office.done()
        # It is over by itself.
        await found(
            lambda: publishing.pool.fetchval("select count(*) = 1 from alarms where cleared_at is not null")
        )

    assert topic.events("user-ada") == events
    assert [row["failed_attempts"] for row in await office.rows(TABLE)] == [0, 0]


async def test_a_broken_network_loses_and_doubles_nothing(
    office: Office, publishing: Publishing, topic: StandInTopic
) -> None:
    events = await office.write(*(envelope("ada", f"user-{number}") for number in range(20)))
    topic.drop_connections = True
    async with publishing.running():
        await found(lambda: publishing.pool.fetchrow("select 1 from alarms"))
        topic.drop_connections = False
        # The topic takes the messages of these calls, but its answers are lost.
        topic.lose_answers = 3
        await office.done()

    assert topic.events("user-ada") == events
    assert not twice(topic.messages)
    assert topic.duplicates > 0


async def test_what_was_published_before_an_outage_is_not_published_after_it(
    office: Office, publishing: Publishing, topic: StandInTopic
) -> None:
    people = [f"user-{number}" for number in range(40)]
    [event] = await office.write(envelope(*people))
    topic.refuse_call = lambda _: "InternalFailure" if len(topic.messages) >= 20 else None
    async with publishing.running():
        await found(lambda: publishing.pool.fetchrow("select 1 from alarms"))
        assert 20 <= len(topic.messages) < 40
        # Longer than the topic recognises duplicates.
        publishing.clock.advance(AN_HOUR)
        topic.refuse_call = lambda _: None
        await office.done()

    assert sorted(message.envelope["recipients"][0] for message in topic.messages) == sorted(people)
    assert {message.event for message in topic.messages} == {event}
    assert topic.duplicates == 0


async def test_while_tocsins_database_is_away_nothing_is_published_twice(
    office: Office, publishing: Publishing, topic: StandInTopic, database_url: str
) -> None:
    first, second = await office.write(envelope("ada", "bob"), envelope("ada"))
    gone = False

    def refuse(group: str, _: object) -> str | None:
        return "InternalError" if group == "user-ada" and not gone else None

    topic.refuse = refuse
    connection = await asyncpg.connect(database_url)
    # It fails after the messages were published, when their progress is to be saved.
    await connection.execute(f"alter table {SCHEMA}.publications add constraint away check (false)")
    async with open_pool(database_url, SCHEMA, PoolSettings()) as frail, publishing.running(pool=frail):
        await until(lambda: len(topic.calls) > 2)
        assert topic.events("user-bob") == [first]
        publishing.clock.advance(AN_HOUR)
        gone = True
        await connection.execute(f"alter table {SCHEMA}.publications drop constraint away")
        await office.done()
    await connection.close()

    assert topic.events("user-ada") == [first, second]
    assert topic.events("user-bob") == [first]
    assert topic.duplicates == 0


async def test_a_result_that_cannot_be_recorded_for_long_is_not_published_again(
    office: Office, publishing: Publishing, topic: StandInTopic
) -> None:
    [event] = await office.write(envelope("ada"))
    # The update of the row fails after its message was published.
    await office.connection.execute(f"alter table {TABLE} add constraint away check (published_at is null)")
    async with publishing.running():
        await until(lambda: len(topic.messages) == 1)
        publishing.clock.advance(AN_HOUR)
        await office.connection.execute(f"alter table {TABLE} drop constraint away")
        await office.done()

    assert topic.events("user-ada") == [event]
    assert topic.duplicates == 0


async def test_without_credentials_it_is_explained_where_they_are_set(
    topic: StandInTopic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    async with AwsClients(AwsSettings(endpoint_url=topic.url, region=REGION)) as clients:
        with pytest.raises(TopicUnavailableError, match=r"no credentials .*TOCSIN_AWS__ACCESS_KEY_ID"):
            await Topic("office", FIFO, clients).publish([Message(b"{}", {})])

    assert not topic.calls
