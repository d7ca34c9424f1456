"""`python -m examples.fisa.function QUEUE_URL`: invokes the function for phones as Lambda does.

Lambda reads the queue and deletes what the function delivered. What it reports as failed is received again.
"""

import sys
from types import SimpleNamespace
from typing import Any

import boto3

from tocsin.aws.delivery_mobile import handler

BATCH = 10
MILLISECONDS = 30_000


def poll(queue_url: str) -> None:
    """Invoke the function with what is in the queue, for ever."""
    sqs = boto3.client("sqs")
    context = SimpleNamespace(get_remaining_time_in_millis=lambda: MILLISECONDS)
    while True:
        received = sqs.receive_message(
            QueueUrl=queue_url, MaxNumberOfMessages=BATCH, WaitTimeSeconds=1, AttributeNames=["All"]
        ).get("Messages", [])
        if not received:
            continue
        answer = handler({"Records": [record(each) for each in received]}, context)
        failed = {each["itemIdentifier"] for each in answer["batchItemFailures"]}
        for each in received:
            if each["MessageId"] not in failed:
                sqs.delete_message(QueueUrl=queue_url, ReceiptHandle=each["ReceiptHandle"])


def record(message: dict[str, Any]) -> dict[str, Any]:
    """Return a message of a queue as it is in the event of a function."""
    return {
        "eventSource": "aws:sqs",
        "messageId": message["MessageId"],
        "receiptHandle": message["ReceiptHandle"],
        "body": message["Body"],
        "attributes": message["Attributes"],
        "messageAttributes": {},
    }


if __name__ == "__main__":
    poll(sys.argv[1])
