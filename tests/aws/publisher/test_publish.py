"""From an outbox to a topic: one message for each recipient."""

from tests.aws.publisher.office import STANDARD, Office, Publishing, envelope
from tests.aws.publisher.stand_in import StandInTopic, twice


async def test_each_recipient_gets_a_message_of_their_own(
    office: Office, publishing: Publishing, topic: StandInTopic
) -> None:
    [event] = await office.write(envelope("ada", 17, "ada"))
    async with publishing.running():
        await office.done()

    assert [(message.group, message.deduplication_id) for message in topic.messages] == [
        ("user-ada", f"{event}-ada"),
        ("user-17", f"{event}-17"),
    ]
    assert [message.envelope["recipients"] for message in topic.messages] == [["ada"], ["17"]]
    first = topic.messages[0]
    assert first.attributes == {"event_type": "comment.added", "org_id": "org-1", "severity": "info"}
    assert first.envelope["extras"] == {"work_item_id": "7"}
    assert not await publishing.publications()


async def test_an_event_for_nobody_in_particular_is_a_broadcast(
    office: Office, publishing: Publishing, topic: StandInTopic
) -> None:
    [event] = await office.write(envelope(recipients=[]))
    async with publishing.running():
        await office.done()

    [message] = topic.messages
    assert (message.group, message.deduplication_id) == ("broadcast", event)
    assert message.envelope["recipients"] == []


async def test_messages_go_by_ten_and_a_standard_topic_has_no_groups(
    office: Office, publishing: Publishing, topic: StandInTopic
) -> None:
    await office.write(*(envelope(f"user-{number}") for number in range(35)))
    async with publishing.running(publishing.settings(STANDARD)):
        await office.done()

    assert len(topic.messages) == 35
    assert len(topic.calls) < 10
    assert not any(message.group or message.deduplication_id for message in topic.messages)


async def test_ten_events_in_a_row_arrive_in_order(
    office: Office, publishing: Publishing, topic: StandInTopic
) -> None:
    events = await office.write(*(envelope("ada", f"other-{number}") for number in range(10)))
    async with publishing.running():
        await office.done()

    assert topic.events("user-ada") == events
    assert not twice(topic.messages)
    assert all(len(set(groups)) == len(groups) for groups in topic.calls)
