"""Messages of a topic, in SNS's wrapper or raw."""

import json
from datetime import UTC, datetime

import msgspec
import pytest

from tests.aws_servers import AwsServer
from tocsin.wire.sns_message import SnsMessage, queue_attributes, unwrap, unwrap_record

SENT = '{"event_id":"e-1","title":"Tiêu đề"}'
ATTRIBUTES = {"event_type": {"DataType": "String", "StringValue": "comment.added"}}


@pytest.mark.parametrize("raw", [False, True], ids=["wrapped", "raw"])
@pytest.mark.parametrize("suffix", ["", ".fifo"], ids=["standard", "fifo"])
def test_what_was_published_comes_out_of_the_queue(aws_server: AwsServer, suffix: str, *, raw: bool) -> None:
    name = f"unwrap-{'raw' if raw else 'wrapped'}{suffix}"
    topic = aws_server.topic(name)
    queue = aws_server.queue(name, of_topic=topic, raw=raw)
    ordered = {"MessageGroupId": "user-1", "MessageDeduplicationId": "e-1-1"} if suffix else {}
    sent = aws_server.client("sns").publish(
        TopicArn=topic, Message=SENT, MessageAttributes=ATTRIBUTES, **ordered
    )
    [got] = aws_server.client("sqs").receive_message(
        QueueUrl=queue, WaitTimeSeconds=1, MessageAttributeNames=["All"]
    )["Messages"]

    found = unwrap(got["Body"], queue_attributes(got.get("MessageAttributes", {})))

    assert found.message == SENT
    assert found.attributes == {"event_type": "comment.added"}
    assert (found.message_id, found.topic_arn) == ((None, None) if raw else (sent["MessageId"], topic))
    assert (found.published_at is None) == raw


def test_the_event_of_a_function_has_the_same_message() -> None:
    record = {
        "Type": "Notification",
        "MessageId": "m-1",
        "TopicArn": "arn:aws:sns:eu-west-1:1:t",
        "Subject": None,
        "Message": SENT,
        "Timestamp": "2026-11-16T08:59:59.999Z",
        "SignatureVersion": "1",
        "MessageAttributes": {"event_type": {"Type": "String", "Value": "comment.added"}},
    }
    expected = SnsMessage(
        message=SENT,
        attributes={"event_type": "comment.added"},
        message_id="m-1",
        topic_arn="arn:aws:sns:eu-west-1:1:t",
        published_at=datetime(2026, 11, 16, 8, 59, 59, 999_000, UTC),
    )

    assert unwrap_record(record) == unwrap(json.dumps(record)) == expected
    with pytest.raises(msgspec.ValidationError):
        unwrap_record({"Type": "Notification"})


@pytest.mark.parametrize(
    ("attribute", "text"),
    [
        ({"StringValue": "b", "DataType": "String"}, {"a": "b"}),
        ({"stringValue": "b", "stringListValues": [], "dataType": "String"}, {"a": "b"}),
        ({"BinaryValue": b"\x00\xff", "DataType": "Binary"}, {"a": "AP8="}),
        ({"binaryValue": "AP8=", "dataType": "Binary"}, {"a": "AP8="}),
        ({"dataType": "String"}, {}),
    ],
)
def test_attributes_are_text(attribute: dict[str, object], text: dict[str, str]) -> None:
    assert queue_attributes({"a": attribute}) == text


@pytest.mark.parametrize(
    "body",
    [
        "",
        "no JSON",
        "[]",
        "null",
        '{"Type":"Notification","Message":"no topic"}',
        '{"Type":"Notification","MessageId":"m","TopicArn":"t","Message":{"not":"text"}}',
        '{"Type":"SubscriptionConfirmation","MessageId":"m","TopicArn":"t","Message":""}',
        '{"x":' + "[" * 100_000,
        "\ud800",
        "\x00\x7f",
    ],
)
def test_a_body_that_is_no_wrapper_is_the_message_itself(body: str) -> None:
    assert unwrap(body, {"a": "b"}) == SnsMessage(message=body, attributes={"a": "b"})


@pytest.mark.parametrize("written", ["", "yesterday", "10000-01-01T00:00:00Z"])
def test_a_time_that_is_none_is_left_out(written: str) -> None:
    body = {"Type": "Notification", "MessageId": "m", "TopicArn": "t", "Message": "", "Timestamp": written}

    assert unwrap(json.dumps(body)) == SnsMessage(message="", message_id="m", topic_arn="t")
