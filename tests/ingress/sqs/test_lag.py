"""How far behind the reader of a queue is, as operators see it."""

import pytest

from tests.acceptance.processes import free_port
from tests.aws_servers import AwsServer
from tests.ingress.lags import reaches
from tests.ingress.sqs.conftest import Queue, intent
from tests.running import running
from tocsin.engine.health.provider_health import Waiting
from tocsin.ingress.sqs import consumer as module
from tocsin.ingress.sqs.queue import SqsQueue
from tocsin.providers.aws.json_calls import AwsCallError


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MEASURE_SECONDS", 0.05)


async def test_messages_are_counted_until_they_are_deleted(queue: Queue) -> None:
    queue.send("no intent")
    reader = queue.consumer()

    async with running(reader):
        held = await reaches(
            queue.pool, reader.report, lambda each: each.waiting == Waiting(1, or_more=False)
        )
        queue.sqs.purge_queue(QueueUrl=queue.url)
        done = await reaches(
            queue.pool, reader.report, lambda each: each.waiting == Waiting(0, or_more=False)
        )

    assert (held.kind, held.name, held.state, done.lag_seconds) == ("queue", "shop", "reading", 0)


async def test_a_queue_that_may_not_be_counted_is_still_read(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(_: SqsQueue) -> int:
        raise AwsCallError("AccessDenied")

    monkeypatch.setattr(SqsQueue, "count_messages", refuse)
    queue.send(intent())
    reader = queue.consumer()

    async with running(reader):
        shown = await reaches(queue.pool, reader.report, lambda each: each.progressed_at is not None)

    assert (shown.state, shown.waiting) == ("reading", None)
    assert shown.last_error == "messages are not counted: AccessDenied"


async def test_a_queue_that_is_away_is_failing(queue: Queue) -> None:
    queue.server = AwsServer(f"http://127.0.0.1:{free_port()}")
    away = queue.consumer()

    async with running(away):
        shown = await reaches(queue.pool, away.report, lambda each: each.state == "failing")

    assert shown.last_error is not None
    assert "tries in a row failed" in shown.last_error
