"""The clients of AWS against a real server."""

import pytest

from tests.aws_servers import AwsServer
from tocsin.domain.errors import SettingsError
from tocsin.providers.aws.clients import AwsClients
from tocsin.settings.load import load_settings


async def test_a_message_goes_from_a_topic_to_a_queue(aws_server: AwsServer) -> None:
    topic = aws_server.topic("clients.fifo")
    queue = aws_server.queue("clients.fifo", of_topic=topic, raw=True)
    async with AwsClients(aws_server.settings) as clients:
        sns, sqs = await clients.client("sns"), await clients.client("sqs")
        assert await clients.client("sns") is sns
        sent = await sns.publish(
            TopicArn=topic, Message="{}", MessageGroupId="user-1", MessageDeduplicationId="e-1"
        )
        got = await sqs.receive_message(QueueUrl=queue, WaitTimeSeconds=1)

    assert sent["MessageId"]
    assert [message["Body"] for message in got["Messages"]] == ["{}"]


def test_half_a_key_stops_the_start() -> None:
    with pytest.raises(SettingsError) as raised:
        load_settings({"TOCSIN_AWS__ACCESS_KEY_ID": "AKIA", "TOCSIN_AWS__ENDPOINT_URL": "localhost"})

    assert [fault.field.partition(" ")[0] for fault in raised.value.faults] == [
        "aws.endpoint_url",
        "aws.secret_access_key",
    ]
