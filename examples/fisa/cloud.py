"""AWS on this machine: topics and queues by moto, mobile push by Tocsin's sandbox.

`deploy/aws/template.yaml` creates the same topic and queues in an account of AWS, and the function besides.
"""

import json
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import boto3
import msgspec
from moto.server import ThreadedMotoServer

REGION = "ap-southeast-1"
ACCOUNT = "123456789012"
APPLICATIONS = f"arn:aws:sns:{REGION}:{ACCOUNT}:app"
ANDROID, IOS = f"{APPLICATIONS}/GCM/fisa-android", f"{APPLICATIONS}/APNS/fisa-ios"
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "example", "AWS_SECRET_ACCESS_KEY": "example"}
RECEIVES_BEFORE_DEAD = 5


class Cloud(msgspec.Struct, frozen=True):
    """The topic and the two queues that it fills."""

    url: str
    topic_arn: str
    mobile_queue: str
    archive_queue: str

    @property
    def environment(self) -> dict[str, str]:
        """The variables of a process that uses AWS."""
        return CREDENTIALS | {"AWS_ENDPOINT_URL": self.url, "AWS_DEFAULT_REGION": REGION}


@contextmanager
def running_cloud() -> Iterator[Cloud]:
    """Run the server, and create a FIFO topic with a queue for phones and one for the archive."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    os.environ.update(CREDENTIALS)
    logging.getLogger("werkzeug").setLevel(logging.WARNING)
    server.start()
    try:
        host, port = server.get_host_and_port()
        yield _created(f"http://{host}:{port}")
    finally:
        server.stop()


def _created(url: str) -> Cloud:
    sns, sqs = (boto3.client(name, endpoint_url=url, region_name=REGION) for name in ("sns", "sqs"))
    fifo = {"FifoTopic": "true", "ContentBasedDeduplication": "true"}
    topic: str = sns.create_topic(Name="fisa-notify.fifo", Attributes=fifo)["TopicArn"]

    def queue(name: str, **attributes: str) -> tuple[str, str]:
        made: str = sqs.create_queue(
            QueueName=f"fisa-notify-{name}.fifo", Attributes={"FifoQueue": "true", **attributes}
        )["QueueUrl"]
        found: dict[str, Any] = sqs.get_queue_attributes(QueueUrl=made, AttributeNames=["QueueArn"])
        return made, found["Attributes"]["QueueArn"]

    _, dead_arn = queue("mobile-dead")
    redrive = json.dumps({"deadLetterTargetArn": dead_arn, "maxReceiveCount": RECEIVES_BEFORE_DEAD})
    queues = {"mobile": queue("mobile", RedrivePolicy=redrive), "archive": queue("archive")}
    for _, arn in queues.values():
        sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=arn)
    return Cloud(url, topic, queues["mobile"][0], queues["archive"][0])
