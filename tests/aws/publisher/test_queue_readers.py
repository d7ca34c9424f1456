"""What we published, read from queues by AWS's own clients, through `moto`'s server."""

import asyncio
import os
import subprocess
import uuid
from pathlib import Path
from typing import Any

import jsonschema_rs
import msgspec
import pytest

from tests.aws.publisher.office import Office, Publishing, envelope
from tests.aws_servers import CREDENTIALS, REGION, AwsServer
from tests.catalogs import shipped
from tests.engine.stage import MovableClock
from tests.javascript.packages import package, program
from tocsin.store.pool import Pool

ROOT = Path(__file__).parents[3]
READ = ROOT / "tests" / "javascript" / "read_queue.mjs"
SCHEMA = ROOT / "docs" / "reference" / "fisa-envelope.schema.json"


@pytest.fixture
def publishing(pool: Pool, office: Office, aws_server: AwsServer, clock: MovableClock) -> Publishing:
    """Give a publisher to topics of moto."""
    return Publishing(pool, shipped(), office, aws_server.url, clock)


async def _read_by_node(server: AwsServer, queue: str) -> list[dict[str, Any]]:
    package("@aws-sdk/client-sqs")
    command = [program("node", "nodejs"), str(READ), server.url, REGION, queue]
    ran = await asyncio.to_thread(
        subprocess.run,
        command,
        capture_output=True,
        check=False,
        env={**os.environ, **CREDENTIALS},
        timeout=60,
    )
    assert ran.returncode == 0, ran.stderr
    read: list[dict[str, Any]] = msgspec.json.decode(ran.stdout)
    return read


@pytest.mark.parametrize("raw", [False, True], ids=["wrapped", "raw"])
async def test_the_stock_javascript_client_reads_what_we_published(
    office: Office, publishing: Publishing, aws_server: AwsServer, *, raw: bool
) -> None:
    name = f"read-{uuid.uuid4()}.fifo"
    topic = aws_server.topic(name)
    queue = aws_server.queue(name, of_topic=topic, raw=raw)
    written = [
        envelope("ada", title='Tiêu đề "ngắn" <&>', extras={"emoji": "🎉", "line": "\u2028\ufffe"}),
        envelope("ada", 17, severity="warn", org_id=5),
        envelope(recipients=[], icon="bell"),
    ]
    events = await office.write(*written)
    async with publishing.running(publishing.settings(topic)):
        await office.done()

    read = await _read_by_node(aws_server, queue)

    by_group = {(each["group"], each["envelope"]["event_id"]): each for each in read}
    assert len(by_group) == len(read) == 4
    first = by_group["user-ada", events[0]]
    assert first["envelope"] == {**written[0], "recipients": ["ada"]}
    assert first["deduplication"] == f"{events[0]}-ada"
    assert first["attributes"] == {"event_type": "comment.added", "org_id": "org-1", "severity": "info"}
    assert by_group["user-17", events[1]]["attributes"]["org_id"] == "5"
    assert by_group["broadcast", events[2]]["envelope"]["icon"] == "bell"
    assert [each["envelope"]["event_id"] for each in read if each["group"] == "user-ada"] == events[:2]
    schema = jsonschema_rs.validator_for(msgspec.json.decode(SCHEMA.read_bytes()))
    for each in read:
        schema.validate(each["envelope"])


async def test_a_subscription_filters_by_our_attributes(
    office: Office, publishing: Publishing, aws_server: AwsServer
) -> None:
    name = f"filtered-{uuid.uuid4()}.fifo"
    topic = aws_server.topic(name)
    queue = aws_server.queue(name, of_topic=topic, raw=True)
    sns = aws_server.client("sns")
    [subscription] = sns.list_subscriptions_by_topic(TopicArn=topic)["Subscriptions"]
    sns.set_subscription_attributes(
        SubscriptionArn=subscription["SubscriptionArn"],
        AttributeName="FilterPolicy",
        AttributeValue='{"severity": ["error"], "org_id": ["org-1"]}',
    )
    _, wanted, _ = await office.write(
        envelope("ada"), envelope("ada", severity="error"), envelope("ada", severity="error", org_id="org-2")
    )
    async with publishing.running(publishing.settings(topic)):
        await office.done()

    messages = aws_server.client("sqs").receive_message(QueueUrl=queue, MaxNumberOfMessages=10)["Messages"]
    assert [msgspec.json.decode(each["Body"])["event_id"] for each in messages] == [wanted]
