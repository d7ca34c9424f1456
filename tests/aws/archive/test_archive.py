import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.aws.archive.conftest import Topic, decode, envelope
from tests.aws_servers import REGION, AwsServer
from tests.waiting import found, until
from tocsin.aws.archive import archive as module
from tocsin.aws.archive import destination as destinations
from tocsin.aws.archive.archive import ArchiveFailedError
from tocsin.aws.archive.destination import BucketDestination, FolderDestination, WriteFailedError
from tocsin.domain.delivery.backoff import parse_backoff
from tocsin.providers.aws.clients import AwsClients
from tocsin.providers.aws.settings import AwsSettings


async def test_what_was_published_is_archived_and_deleted(topic: Topic) -> None:
    attributes = {"event_type": {"DataType": "String", "StringValue": "comment.added"}}
    message_id = topic.publish(envelope(1), MessageAttributes=attributes, Subject="A comment")

    totals = await topic.drained()

    (line,) = topic.lines()
    (file,) = topic.files()
    assert (totals.messages, totals.files, totals.bytes) == (1, 1, file.stat().st_size)
    assert line["message_id"] == message_id
    assert line["envelope"]["title"] == "Tiêu đề ngắn"
    assert line["text"] is None
    assert (line["topic_arn"], line["subject"]) == (topic.arn, "A comment")
    assert line["attributes"] == {"event_type": "comment.added"}
    day, hour = line["published_at"][:10], line["published_at"][11:13]
    assert file.relative_to(topic.folder).parts[:2] == (f"day={day}", f"hour={hour}")
    assert await topic.left() == (0, 0)


@pytest.mark.parametrize("raw", [False, True], ids=["wrapped", "raw"])
async def test_a_group_of_a_fifo_topic_is_archived_in_its_order(
    aws_server: AwsServer, tmp_path: Path, *, raw: bool
) -> None:
    """Messages of a group wait for those that are held, so these are written as soon as no other comes."""
    topic = Topic(aws_server, tmp_path, suffix=".fifo", raw=raw)
    for number in range(25):
        topic.publish(envelope(number), MessageGroupId="user-1", MessageDeduplicationId=f"e-{number}-1")
    async with topic.running(roll_seconds=3_600):
        await topic.empties()

    lines = topic.lines()
    assert all(line["sequence_number"] for line in lines)
    assert [line["envelope"]["event_id"] for line in lines] == [f"e-{number}" for number in range(25)]
    assert [line["deduplication_id"] for line in lines] == [f"e-{number}-1" for number in range(25)]
    assert {line["group_id"] for line in lines} == {"user-1"}
    assert {line["topic_arn"] for line in lines} == ({None} if raw else {topic.arn})
    assert all(len(decode(file.read_bytes())) <= 25 for file in topic.files())


async def test_a_message_that_is_no_envelope_is_archived_too(topic: Topic) -> None:
    topic.publish("no JSON\nat all")
    topic.publish(envelope(1))

    await topic.drained()

    assert {line["text"] for line in topic.lines()} == {None, "no JSON\nat all"}


@pytest.mark.parametrize(
    ("limit", "files"),
    [({"roll_messages": 20}, 3), ({"roll_bytes": 1_048_576}, 1), ({"roll_messages": 60}, 1)],
)
async def test_a_file_is_full_by_messages_or_bytes(topic: Topic, limit: dict[str, int], files: int) -> None:
    topic.publish_all(range(60))

    totals = await topic.drained(roll_seconds=3_600, receivers=1, **limit)

    assert (totals.messages, totals.files) == (60, files)
    assert {line["envelope"]["event_id"] for line in topic.lines()} == {f"e-{number}" for number in range(60)}


async def test_large_messages_fill_a_file(topic: Topic) -> None:
    for number in range(6):
        topic.publish(envelope(number, body="x" * 200_000))

    totals = await topic.drained(roll_seconds=3_600, roll_bytes=1_048_576, receivers=1)

    assert totals.messages == 6
    assert all(len(decode(file.read_bytes())) <= 6 for file in topic.files())


async def test_a_file_is_written_when_it_is_old(topic: Topic) -> None:
    async with topic.running(roll_seconds=1):
        topic.publish(envelope(1))
        await until(lambda: len(topic.files()) == 1)
        await topic.empties()


async def test_a_stop_writes_what_is_held(topic: Topic) -> None:
    topic.publish_all(range(10))
    async with topic.running(roll_seconds=3_600) as archive:
        await until(lambda: archive.held == 10)
        assert not topic.files()

    assert len(topic.lines()) == 10
    assert await topic.left() == (0, 0)


async def test_each_hour_has_its_own_file(topic: Topic) -> None:
    for day in (16, 17):
        for hour in (0, 23):
            body = {
                "Type": "Notification",
                "MessageId": f"m-{day}-{hour}",
                "TopicArn": topic.arn,
                "Message": envelope(hour),
                "Timestamp": f"2026-11-{day}T{hour:02}:30:00Z",
            }
            topic.sqs.send_message(QueueUrl=topic.url, MessageBody=json.dumps(body))

    totals = await topic.drained()

    assert totals.files == len(topic.files()) == 4


class Unwilling:
    """A destination that fails until it is told not to."""

    def __init__(self, folder: Path) -> None:
        self.folder = FolderDestination(folder)
        self.tries: list[str] = []
        self.willing = False

    async def write(self, name: str, content: bytes) -> None:
        self.tries.append(name)
        if not self.willing:
            raise WriteFailedError("OSError: No space left on device")
        await self.folder.write(name, content)


async def test_a_destination_that_is_away_costs_no_receives(
    topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each receive counts for the redrive policy of the queue."""
    monkeypatch.setattr(module, "BACKOFF", parse_backoff("exponential(10ms, 20ms, 2, 0)"))
    unwilling = Unwilling(topic.folder)
    topic.publish_all(range(10))
    with capture_logs() as logs:
        async with topic.running(to=unwilling, roll_seconds=1) as archive:
            await until(lambda: len(unwilling.tries) > 3)
            assert await archive.fault() == "The destination takes no files."
            assert await topic.left() == (0, 10)
            unwilling.willing = True
            await topic.empties()
            assert await archive.fault() is None

    assert len(set(unwilling.tries)) == 1
    assert len(topic.lines()) == 10
    (alarm, *_) = [log for log in logs if log["event"] == "archive alarm raised"]
    assert alarm["code"] == "archive_unwritable"
    assert "archive alarm cleared" in {log["event"] for log in logs}


async def test_a_stop_ends_while_the_destination_is_away(
    topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "STOP_SECONDS", 0.2)
    unwilling = Unwilling(topic.folder)
    topic.publish_all(range(20))
    with capture_logs() as logs:
        async with topic.running(to=unwilling, roll_messages=10, receivers=1):
            await until(lambda: len(unwilling.tries) > 0)

    assert {log["event"] for log in logs} >= {"archive file not written"}
    assert sum(await topic.left()) == 20
    assert not topic.files()


async def test_draining_fails_if_the_destination_is_away(
    topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "STOP_SECONDS", 0.2)
    topic.publish_all(range(10))

    with pytest.raises(ArchiveFailedError, match="archive_unwritable: 3 tries"):
        await topic.drained(to=Unwilling(topic.folder))

    assert sum(await topic.left()) == 10


async def test_draining_fails_if_there_is_no_queue(topic: Topic) -> None:
    topic.sqs.delete_queue(QueueUrl=topic.url)

    with pytest.raises(
        ArchiveFailedError, match="sqs_unreachable: 3 tries in a row failed: QueueDoesNotExist"
    ):
        await topic.drained()


async def test_a_queue_that_comes_back_is_read_on(topic: Topic) -> None:
    topic.sqs.delete_queue(QueueUrl=topic.url)
    with capture_logs() as logs:
        async with topic.running(roll_seconds=1) as archive:
            await until(lambda: any(log["event"] == "archive alarm raised" for log in logs))
            assert await archive.fault() == "SQS does not answer."
            topic.sqs.create_queue(QueueName=topic.url.rpartition("/")[2])
            topic.sqs.send_message(QueueUrl=topic.url, MessageBody="raw")
            await until(lambda: len(topic.files()) == 1)
            assert await archive.fault() is None

    assert [line["text"] for line in topic.lines()] == ["raw"]


class TestBucket:
    async def test_a_file_is_an_object(self, topic: Topic) -> None:
        s3 = topic.server.client("s3")
        s3.create_bucket(Bucket="archive", CreateBucketConfiguration={"LocationConstraint": "ap-southeast-1"})
        topic.publish_all(range(30))

        totals = await topic.drained(destination="s3://archive/fisa/events/")

        listed = s3.list_objects_v2(Bucket="archive", Prefix="fisa/events/day=")["Contents"]
        lines = [
            line
            for each in listed
            for line in decode(s3.get_object(Bucket="archive", Key=each["Key"])["Body"].read())
        ]
        assert totals.files == len(listed)
        assert {line["envelope"]["event_id"] for line in lines} == {f"e-{number}" for number in range(30)}
        assert await topic.left() == (0, 0)

    async def test_a_bucket_that_is_made_later_gets_what_was_held(self, topic: Topic) -> None:
        topic.publish_all(range(10))
        place: dict[str, Any] = {"CreateBucketConfiguration": {"LocationConstraint": "ap-southeast-1"}}
        with capture_logs() as logs:
            async with topic.running(destination="s3://late", roll_seconds=1):
                await until(lambda: any(log["event"] == "duty failed" for log in logs))
                topic.server.client("s3").create_bucket(Bucket="late", **place)
                await topic.empties()

        (failed, *_) = [log for log in logs if log["event"] == "duty failed"]
        assert failed["error"] == "WriteFailedError('S3 answered with NoSuchBucket')"


async def test_a_bucket_that_never_asks_for_the_content_is_a_write_that_failed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The client sends the head of a request, and the content once S3 has answered that."""
    monkeypatch.setattr(destinations, "WRITE_SECONDS", 0.2)
    asked = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        asked.set()
        await reader.read()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    settings = AwsSettings(endpoint_url=url, region=REGION, access_key_id="id", secret_access_key="key")
    async with server, AwsClients(settings) as clients:
        # To open it takes longer.
        await clients.client("s3")
        with pytest.raises(WriteFailedError, match="TimeoutError"):
            async with asyncio.timeout(10):
                await BucketDestination(clients, "archive", "").write(
                    "file.ndjson.zst", b"content" * 1_000_000
                )
    assert asked.is_set()


async def test_two_archives_share_a_queue(topic: Topic) -> None:
    topic.publish_all(range(100))

    first, second = await asyncio.gather(topic.drained(), topic.drained())

    assert first.messages + second.messages == 100
    ids = {line["message_id"] for line in topic.lines()}
    assert len(ids) == 100


async def test_messages_are_kept_from_others_while_they_are_held(topic: Topic) -> None:
    """The last of them arrives when the time of the first is over."""
    topic.sqs.send_message(QueueUrl=topic.url, MessageBody="first")
    topic.sqs.send_message(QueueUrl=topic.url, MessageBody="last", DelaySeconds=14)
    async with topic.running(roll_seconds=3_600, visibility_seconds=10) as archive:
        await until(lambda: archive.held == 2)

        async def look() -> bool:
            return await topic.left() == (0, 2)

        await found(look)
    assert sorted(line["text"] for line in topic.lines()) == ["first", "last"]


@pytest.mark.usefixtures("expired_credentials")
async def test_expired_credentials_are_a_write_that_failed(aws_server: AwsServer) -> None:
    settings = AwsSettings(endpoint_url=aws_server.url, region=REGION)
    async with AwsClients(settings) as clients:
        bucket = BucketDestination(clients, "archive", "")
        with pytest.raises(WriteFailedError):
            await bucket.write("day=2026-01-01/file.ndjson.zst", b"content")
