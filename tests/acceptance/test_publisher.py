"""From an application's transaction to a queue of a FIFO topic: once, in order, whatever dies in between."""

import asyncio
import random
import uuid
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping
from itertools import count
from typing import Any

import msgspec
import pytest

from tests.acceptance.figures import Figure
from tests.acceptance.installation import Installation
from tests.acceptance.processes import Process
from tests.aws.publisher.office import TABLE, Office, envelope, opened_office
from tests.aws_servers import AwsServer
from tests.databases import open_folder
from tests.ingress.outbox.outboxes import opened_shop
from tests.ingress.outbox.wires import DatabaseWire, HttpWire, Steps
from tests.waiting import found
from tocsin.wire.sns_message import unwrap

CHANNEL = f"public.{TABLE}"
PEOPLE = [f"user{number}" for number in range(11)]
KILLS = 6
RANDOM_EVENTS = 120


@pytest.fixture
async def office(server_url: str) -> AsyncIterator[Office]:
    async with opened_office(server_url) as opened:
        yield opened


class Subscription:
    """A FIFO topic and a queue that gets its messages."""

    def __init__(self, server: AwsServer) -> None:
        name = f"killed-{uuid.uuid4()}.fifo"
        self.arn = server.topic(name)
        self._url = server.queue(name, of_topic=self.arn)
        self._sqs = server.client("sqs")

    def received(self) -> Mapping[str, list[str]]:
        """Return the events of each group, in the order in which the queue has them."""
        events: defaultdict[str, list[str]] = defaultdict(list)
        while messages := self._sqs.receive_message(
            QueueUrl=self._url, MaxNumberOfMessages=10, AttributeNames=["MessageGroupId"]
        ).get("Messages"):
            for message in messages:
                content: dict[str, Any] = msgspec.json.decode(unwrap(message["Body"]).message)
                events[message["Attributes"]["MessageGroupId"]].append(content["event_id"])
                self._sqs.delete_message(QueueUrl=self._url, ReceiptHandle=message["ReceiptHandle"])
        return events


@pytest.fixture
def subscription(aws_server: AwsServer) -> Subscription:
    return Subscription(aws_server)


def published_to(arn: str, url: str, server: AwsServer, endpoint: str = "") -> dict[str, str]:
    prefix = "TOCSIN_OUTBOXES__OFFICE__"
    outbox = {"URL": url, "TABLE": TABLE, "ENVELOPE": "fisa", "TOPIC_ARN": arn}
    environment = server.environ | {f"{prefix}{name}": value for name, value in outbox.items()}
    return environment | ({"TOCSIN_AWS__ENDPOINT_URL": endpoint} if endpoint else {})


@pytest.mark.timeout(400)
async def test_killed_at_every_wire_step_each_user_sees_each_event_once_and_in_order(
    installation: Installation,
    office: Office,
    subscription: Subscription,
    aws_server: AwsServer,
    figure: Figure,
) -> None:
    """Every step is a message to or from one of the databases or SNS, halted on its way when the kill comes.

    So the relay dies before it has taken a row, after that, between two calls, before and after an answer of
    SNS reaches it, before and after it has marked the row, and while it commits.
    """
    steps, killed, events = Steps(), 0, list[str]()
    with open_folder() as folder:
        (folder / "own").mkdir()
        (folder / "theirs").mkdir()
        async with (
            DatabaseWire(
                installation.environment["TOCSIN_DATABASE_URL"], folder / "own", steps
            ).strung() as own,
            DatabaseWire(office.url, folder / "theirs", steps).strung() as theirs,
            HttpWire(aws_server.url, steps).strung() as aws,
        ):
            environment = published_to(subscription.arn, theirs.url, aws_server, aws.url) | {
                "TOCSIN_DATABASE_URL": own.url,
                "TOCSIN_OUTBOXES__OFFICE__POLL_SECONDS": "3600",
            }
            relay = await _started(installation, environment)
            for number in count():
                steps.halt_after(number)
                events += await office.write(envelope(*PEOPLE), envelope(PEOPLE[0]))
                await office.connection.execute("select pg_notify($1, '')", CHANNEL)
                if not await _halted_before_published(steps, office):
                    break
                await relay.kill()
                killed += 1
                for wire in (own, theirs, aws):
                    await wire.cut()
                steps.go_on()
                relay = await _started(installation, environment)
                await office.done()

    figure("steps at which a publisher was killed", killed)
    assert killed >= 15
    received = subscription.received()
    assert received["user-user0"] == events
    for person in PEOPLE[1:]:
        assert received[f"user-{person}"] == events[::2]


async def test_publishers_killed_at_random_lose_and_double_nothing(
    installation: Installation, office: Office, subscription: Subscription, aws_server: AwsServer
) -> None:
    environment = published_to(subscription.arn, office.url, aws_server) | {
        "TOCSIN_OUTBOXES__OFFICE__BATCH": "3",
        "TOCSIN_OUTBOXES__OFFICE__POLL_SECONDS": "0.05",
    }
    relays = [await _started(installation, environment) for _ in range(2)]
    chance = random.Random(7)  # noqa: S311 - any sequence will do
    events: list[str] = []

    async def write() -> None:
        async with opened_shop(office.url) as shop:
            writer = Office(office.url, shop.connection)
            for number in range(RANDOM_EVENTS):
                events.extend(await writer.write(envelope("ada", f"user{number % 4}")))

    writing = asyncio.create_task(write())
    for kill in range(KILLS):
        least = RANDOM_EVENTS * (kill + 1) // (KILLS + 1) - chance.randrange(10)
        await found(lambda least=least: _published(office, least), within=60)  # type: ignore[misc]
        victim = chance.randrange(2)
        await relays[victim].kill()
        relays[victim] = await installation.start("relay", **environment)
    await writing
    await office.done()

    received = subscription.received()
    assert received["user-ada"] == events
    for number in range(4):
        assert received[f"user-user{number}"] == events[number::4]


async def test_without_the_extra_the_relay_says_what_to_install(
    installation: Installation, office: Office, subscription: Subscription, aws_server: AwsServer
) -> None:
    relay = await installation.start(
        "relay",
        before="import sys; sys.modules['botocore'] = None",
        **published_to(subscription.arn, office.url, aws_server),
    )

    assert await relay.end() == 2
    said = " ".join(relay.log)
    assert "outboxes.office.topic_arn (TOCSIN_OUTBOXES__OFFICE__TOPIC_ARN)" in said
    assert "pip install 'tocsin[aws]'" in said


async def _started(installation: Installation, environment: dict[str, str]) -> Process:
    relay = await installation.start("relay", **environment)
    await relay.logged("listener connected", channel=CHANNEL)
    return relay


async def _halted_before_published(steps: Steps, office: Office) -> bool:
    """Wait until the relay stands still, or has done everything before it could be halted."""

    async def look() -> str:
        if steps.halted.is_set():
            return "halted"
        return "" if await office.waiting(TABLE) else "published"

    return await found(look) == "halted"


async def _published(office: Office, least: int) -> bool:
    done: int = await office.connection.fetchval(
        f"select count(*) from {TABLE} where published_at is not null"  # noqa: S608 - a table of this test
    )
    return done >= least
