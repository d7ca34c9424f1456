"""AWS as `moto` emulates it, over real HTTP."""

import os
import select
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import boto3
from flask import request
from moto.server import ThreadedMotoServer
from moto.sqs.models import SQSBackend

from tocsin.providers.aws.settings import AwsSettings

REGION = "ap-southeast-1"
ACCOUNT = "123456789012"
LOOK_SECONDS = 0.05
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing"}


class AwsServer:
    """A running server; it lives in this process, so that a test can look at what reached it."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.settings = AwsSettings(
            endpoint_url=url, region=REGION, access_key_id="testing", secret_access_key="testing", timeout=5.0
        )
        self.environ = {
            "TOCSIN_AWS__ENDPOINT_URL": url,
            "TOCSIN_AWS__REGION": REGION,
            "TOCSIN_AWS__ACCESS_KEY_ID": "testing",
            "TOCSIN_AWS__SECRET_ACCESS_KEY": "testing",
        }

    def client(self, service: str) -> Any:
        """Return a client of a service, as a test uses it: plain boto3."""
        return boto3.client(
            service,
            endpoint_url=self.url,
            region_name=REGION,
            aws_access_key_id="testing",
            aws_secret_access_key="testing",
        )

    def topic(self, name: str) -> str:
        """Make a topic, FIFO if its name ends so, and return its ARN."""
        fifo = {"Attributes": {"FifoTopic": "true"}} if name.endswith(".fifo") else {}
        arn: str = self.client("sns").create_topic(Name=name, **fifo)["TopicArn"]
        return arn

    def queue(self, name: str, *, of_topic: str = "", raw: bool = False, **attributes: str) -> str:
        """Make a queue, FIFO if its name ends so, subscribed to a topic if one is given; return its URL."""
        sqs = self.client("sqs")
        fifo = {"FifoQueue": "true"} if name.endswith(".fifo") else {}
        url: str = sqs.create_queue(QueueName=name, Attributes=fifo | attributes)["QueueUrl"]
        if of_topic:
            wanted = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])
            self.client("sns").subscribe(
                TopicArn=of_topic,
                Protocol="sqs",
                Endpoint=wanted["Attributes"]["QueueArn"],
                Attributes={"RawMessageDelivery": "true"} if raw else {},
            )
        return url


_receiving = threading.Lock()
_receive = SQSBackend.receive_message


def _receive_message(
    self: SQSBackend, queue_name: str, count: int, wait_seconds_timeout: int, *others: Any, **more: Any
) -> list[Any]:
    """Receive as SQS does: no message twice, and none of a group of which another receive has some.

    moto runs its requests in threads, decides at the start of a long poll which groups are free, and polls on
    when nobody waits for the answer.
    """
    end = time.monotonic() + wait_seconds_timeout
    while True:
        with _receiving:
            found = _receive(self, queue_name, count, 0, *others, **more)
        if found or time.monotonic() >= end or _is_client_gone():
            return found
        time.sleep(LOOK_SECONDS)


def _is_client_gone() -> bool:
    connection = request.environ["werkzeug.socket"]
    is_readable, _, _ = select.select([connection], [], [], 0)
    return bool(is_readable) and not connection.recv(1, socket.MSG_PEEK)


@contextmanager
def running_aws() -> Iterator[AwsServer]:
    """Run the server on a free port."""
    SQSBackend.receive_message = _receive_message  # type: ignore[method-assign]
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    kept = {name: os.environ.get(name) for name in CREDENTIALS}
    os.environ.update(CREDENTIALS)
    server.start()
    try:
        host, port = server.get_host_and_port()
        yield AwsServer(f"http://{host}:{port}")
    finally:
        server.stop()
        for name, value in kept.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
