import asyncio
import contextlib
import itertools
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import zstandard

from tests.aws_servers import AwsServer
from tests.running import running
from tests.waiting import found
from tocsin.aws.archive import archive as archive_module
from tocsin.aws.archive.archive import Archive, ArchiveTotals
from tocsin.aws.archive.destination import Destination, destination
from tocsin.aws.archive.settings import ArchiveSettings
from tocsin.ingress.sqs.queue import SqsQueue
from tocsin.providers.aws.clients import AwsClients

_numbers = itertools.count(1)


def envelope(number: int, **changes: Any) -> str:
    fields = {
        "event_id": f"e-{number}",
        "event_type": "comment.added",
        "recipients": [f"user-{number % 7}"],
        "title": "Tiêu đề ngắn",
        "created_at": "2026-11-16T08:59:59Z",
    }
    return json.dumps(fields | changes, ensure_ascii=False)


class Topic:
    """A topic, a queue that is subscribed to it, and the archive of the queue."""

    def __init__(self, server: AwsServer, folder: Path, *, suffix: str = "", raw: bool = False) -> None:
        name = f"archive-{next(_numbers)}{suffix}"
        self.server = server
        self.sns, self.sqs = server.client("sns"), server.client("sqs")
        self.arn = server.topic(name)
        self.url = server.queue(name, of_topic=self.arn, raw=raw)
        self.folder = folder

    def publish(self, message: str, **more: Any) -> str:
        message_id: str = self.sns.publish(TopicArn=self.arn, Message=message, **more)["MessageId"]
        return message_id

    def publish_all(self, numbers: range) -> list[str]:
        """Publish envelopes, ten in a request."""
        ids = []
        for start in range(numbers.start, numbers.stop, 10):
            entries = [
                {"Id": str(number), "Message": envelope(number)}
                for number in range(start, min(start + 10, numbers.stop))
            ]
            answer = self.sns.publish_batch(TopicArn=self.arn, PublishBatchRequestEntries=entries)
            ids += [each["MessageId"] for each in answer["Successful"]]
        return ids

    def settings(self, **changes: Any) -> ArchiveSettings:
        given = {
            "queue_url": self.url,
            "destination": str(self.folder),
            "receivers": 2,
            "visibility_seconds": 10,
            **changes,
        }
        return ArchiveSettings(**given)

    @contextlib.asynccontextmanager
    async def archive(
        self, *, once: bool = False, to: Destination | None = None, **changes: Any
    ) -> AsyncIterator[Archive]:
        settings = self.settings(**changes)
        queue = SqsQueue("archive", self.url, self.server.settings)
        async with AwsClients(self.server.settings) as clients, contextlib.aclosing(queue):
            yield Archive(settings, queue, to or destination(settings, clients), once=once)

    async def drained(self, **changes: Any) -> ArchiveTotals:
        async with self.archive(once=True, **changes) as archive:
            await archive.run(asyncio.Event())
        return archive.totals

    @contextlib.asynccontextmanager
    async def running(self, **changes: Any) -> AsyncIterator[Archive]:
        """Run an archive, and stop it at the end."""
        async with self.archive(**changes) as archive, running(archive):
            yield archive

    async def left(self) -> tuple[int, int]:
        """Return how many messages wait, and how many are held by a reader."""
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        answer = await asyncio.to_thread(
            self.sqs.get_queue_attributes, QueueUrl=self.url, AttributeNames=names
        )
        visible, held = (int(answer["Attributes"][name]) for name in names)
        return visible, held

    async def empties(self) -> None:
        async def look() -> bool:
            return await self.left() == (0, 0)

        await found(look)

    def files(self) -> list[Path]:
        return sorted(self.folder.glob("day=*/hour=*/*.ndjson.zst"))

    def lines(self) -> list[dict[str, Any]]:
        return [line for file in self.files() for line in decode(file.read_bytes())]


def decode(content: bytes) -> list[dict[str, Any]]:
    text = zstandard.ZstdDecompressor().decompressobj().decompress(content).decode()
    assert text.endswith("\n")
    return [json.loads(line) for line in text.splitlines()]


@pytest.fixture
def topic(aws_server: AwsServer, tmp_path: Path) -> Topic:
    return Topic(aws_server, tmp_path)


@pytest.fixture(autouse=True)
def _short_drain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive_module, "DRAIN_SECONDS", 1.0)
