"""Events as Lambda hands them to a function."""

import json
from collections.abc import Mapping
from itertools import count
from typing import Any

from tests.aws_servers import ACCOUNT, REGION

_numbers = count(1)
TOPIC = f"arn:aws:sns:{REGION}:{ACCOUNT}:fisa-notify.fifo"


def envelope(*recipients: str | int, **changes: Any) -> dict[str, Any]:
    """Build an envelope of the document."""
    number = next(_numbers)
    return {
        "event_id": f"event-{number}",
        "event_type": "comment.added",
        "recipients": list(recipients),
        "title": "A new comment",
        "body": f"Comment {number}",
        "icon": "comment",
        "severity": "info",
        "deep_link": "fisa://work-item/7?tab=comments",
        "extras": {"work_item_id": "7", "priority": "high", "count": 3},
        "correlation_id": f"trace-{number}",
        **changes,
    }


def wrapped(body: str, attributes: Mapping[str, str]) -> dict[str, Any]:
    """Wrap a message as SNS does."""
    return {
        "Type": "Notification",
        "MessageId": f"sns-{next(_numbers)}",
        "TopicArn": TOPIC,
        "Message": body,
        "Timestamp": "2026-10-26T14:05:00.000Z",
        "MessageAttributes": {name: {"Type": "String", "Value": each} for name, each in attributes.items()},
    }


def queue_record(
    message: Any, group: str | None = None, *, raw: bool = False, recipient: str | None = None
) -> dict[str, Any]:
    """Build a record of a queue, FIFO if it has a group."""
    body = message if isinstance(message, str) else json.dumps(message)
    attributes = {"recipient": recipient} if recipient else {}
    record: dict[str, Any] = {
        "messageId": f"message-{next(_numbers)}",
        "receiptHandle": "handle",
        "body": body if raw else json.dumps(wrapped(body, attributes)),
        "attributes": {"ApproximateReceiveCount": "1"},
        "messageAttributes": {},
        "eventSource": "aws:sqs",
        "eventSourceARN": f"arn:aws:sqs:{REGION}:{ACCOUNT}:delivery{'' if group is None else '.fifo'}",
        "awsRegion": REGION,
    }
    if group is not None:
        record["attributes"] |= {"MessageGroupId": group, "SequenceNumber": "1"}
    if raw:
        record["messageAttributes"] = {
            name: {"stringValue": value, "dataType": "String", "stringListValues": [], "binaryListValues": []}
            for name, value in attributes.items()
        }
    return record


def topic_record(message: Any, recipient: str | None = None) -> dict[str, Any]:
    """Build a record of a topic that invokes the function itself."""
    attributes = {"recipient": recipient} if recipient else {}
    return {
        "EventSource": "aws:sns",
        "EventVersion": "1.0",
        "EventSubscriptionArn": TOPIC,
        "Sns": {**wrapped(json.dumps(message), attributes), "SignatureVersion": "1"},
    }


def failed(answer: Mapping[str, Any]) -> list[str]:
    """Return the ids of the records that a handler reported."""
    return [each["itemIdentifier"] for each in answer["batchItemFailures"]]
