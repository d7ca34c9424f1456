"""Intents from a queue: what becomes of each message, and of those that are refused."""

import asyncio
import json
from pathlib import Path
from typing import Any

import asyncpg
import msgspec
import pytest
from structlog.testing import capture_logs

from tests.aws_servers import AwsServer
from tests.ingress.sqs.conftest import Queue, intent, named
from tests.waiting import found, until
from tocsin.catalog.load import load_catalog
from tocsin.domain.ids import created_at
from tocsin.engine.accept.write import accept_sourced_within
from tocsin.engine.inspect.show import identify
from tocsin.ingress.sqs import consumer as module
from tocsin.ingress.sqs.consumer import pause_of
from tocsin.ingress.sqs.queue import SqsQueue
from tocsin.store.pool import Pool

GALAXY = Path(__file__).parents[3] / "examples" / "galaxy" / "catalog"


async def test_messages_become_notifications_and_are_deleted(queue: Queue) -> None:
    first = queue.send(intent("1"))
    async with queue.consuming():
        await queue.empties()
        second = queue.send(intent(None))
        await queue.reaches(2)
        await queue.empties()

    rows = await queue.notifications()
    assert [(row["external_id"], row["producer"], row["idempotency_key"]) for row in rows] == [
        (first, "sqs:shop", "1"),
        (second, "sqs:shop", second),
    ]
    assert not await queue.refused()


async def test_a_notification_is_found_by_the_id_of_its_message(queue: Queue) -> None:
    message_id = queue.send(intent())
    async with queue.consuming():
        await queue.empties()

    (row,) = await queue.notifications()
    async with queue.pool.acquire() as connection:
        assert await identify(connection, message_id) == row["id"]
        assert await identify(connection, str(row["id"])) == row["id"]
        assert created_at(row["id"]) is not None


@pytest.mark.parametrize("raw", [False, True], ids=["wrapped", "raw"])
@pytest.mark.parametrize("suffix", ["", ".fifo"], ids=["standard", "fifo"])
async def test_messages_come_by_a_topic(aws_server: AwsServer, pool: Pool, suffix: str, *, raw: bool) -> None:
    name = f"{named()}{suffix}"
    topic = aws_server.topic(name)
    queue = Queue(aws_server, pool, aws_server.queue(name, of_topic=topic, raw=raw))
    ordered = {"MessageGroupId": "user-1", "MessageDeduplicationId": "1"} if suffix else {}
    sent = aws_server.client("sns").publish(TopicArn=topic, Message=intent("1"), **ordered)
    async with queue.consuming():
        await queue.empties()

    (row,) = await queue.notifications()
    assert row["idempotency_key"] == "1"
    assert (row["external_id"] == sent["MessageId"]) is not raw


def envelope(event_id: str, *users: str, **changes: Any) -> str:
    fields = {
        "event_id": event_id,
        "event_type": "customer.added",
        "recipients": list(users),
        "title": "A customer",
        "extras": {"customer_name": "Ali", "unknown_to_the_type": 1},
        "correlation_id": "trace-1",
    }
    return json.dumps(fields | changes)


FISA: dict[str, Any] = {"envelope": "fisa", "types": {"customer.added": "new_customer"}}


async def test_envelopes_of_fisa_are_intents(queue: Queue) -> None:
    """A topic has a message for each recipient of an event; an event that comes again is a duplicate."""
    queue.send(envelope("e-1", "ada", "bob"))
    for user in ("ada", "bob", "ada"):
        queue.send(envelope("e2", user))
    async with queue.consuming(**FISA):
        await queue.empties()

    assert sorted(await queue.keys()) == ["e-1", "e2-ada", "e2-bob"]
    assert await queue.pool.fetchval("select distinct trace_id from notifications") == "trace-1"
    assert not await queue.refused()


async def test_events_and_people_whose_ids_have_dashes_are_told_apart(queue: Queue) -> None:
    for event_id, user in (("order", "1-2"), ("order-1", "2"), ("order-1", "2")):
        queue.send(envelope(event_id, user))
    async with queue.consuming(**FISA, refused="delete"):
        await queue.empties()

    assert len(set(await queue.keys())) == 2
    assert not await queue.refused()


async def test_a_queue_of_an_organisation_reaches_its_people_alone(queue: Queue) -> None:
    statement = "insert into users (user_id, org_id, updated_at) values ($1, $2, now())"
    for user, org in (("ada", "acme"), ("eve", "other")):
        await queue.pool.execute(statement, user, org)
    queue.send(envelope("e1", "ada", org_id="acme"))
    queue.send(envelope("e2", "ada"))
    for event_id, user, org in (("e3", "eve", "acme"), ("e4", "eve", "other")):
        queue.send(envelope(event_id, user, org_id=org))
    async with queue.consuming(**FISA, org_id="acme", refused="delete"):
        await queue.empties()

    assert sorted(await queue.keys()) == ["e1-ada", "e2-ada"]
    assert await queue.pool.fetchval("select array_agg(distinct org_id) from notifications") == ["acme"]
    refused = {row["idempotency_key"]: row["faults"][0]["code"] for row in await queue.refused()}
    assert refused == {"e3-eve": "not_your_organisation", "e4-eve": "not_your_organisation"}
    assert {row["org_id"] for row in await queue.refused()} == {"acme"}


async def test_a_long_event_id_still_has_a_key(queue: Queue) -> None:
    for user in ("a" * 128, "b" * 128):
        queue.send(envelope("e" * 200, user))
    async with queue.consuming(**FISA):
        await queue.empties()

    assert len(set(await queue.keys())) == 2


async def test_a_duplicate_is_deleted_and_a_conflict_refused(queue: Queue) -> None:
    queue.send(intent("1"))
    queue.send(intent("1"))
    async with queue.consuming(refused="delete"):
        await queue.empties()
        conflicting = queue.send(intent("1", name="Veli"))
        await queue.reaches(1, "refused_intents")
        await queue.empties()

    (refusal,) = await queue.refused()
    assert await queue.keys() == ["1"]
    assert (refusal["code"], refusal["producer"], refusal["source"]) == (
        "idempotency_conflict",
        "sqs:shop",
        "sqs",
    )
    assert refusal["content"]["message_id"] == conflicting
    assert json.loads(refusal["content"]["message"])["payload"] == {"customer_name": "Veli"}


POISON = [
    ("no JSON", "invalid_intent"),
    ("[]", "invalid_intent"),
    ("{}", "invalid_intent"),
    ('{"a":' + "[" * 5_000, "invalid_intent"),
    (intent("odd", type="no_such_type"), "unknown_type"),
    (intent("odd", payload={}), "invalid_payload"),
    (intent("odd", send_at="soon"), "invalid_intent"),
    (intent("k" * 201), "invalid_intent"),
]


async def test_one_bad_message_does_not_keep_the_others_from_being_accepted(queue: Queue) -> None:
    ids = {queue.send(body): code for body, code in POISON}
    for number in range(12):
        queue.send(intent(str(number)))
    async with queue.consuming(refused="delete"):
        await queue.empties()

    refused = {row["content"]["message_id"]: row["code"] for row in await queue.refused()}
    assert refused == ids
    assert sorted(await queue.keys(), key=int) == [str(number) for number in range(12)]


async def test_poison_goes_to_the_dead_letter_queue_and_is_recorded_once(
    aws_server: AwsServer, pool: Pool
) -> None:
    name = named()
    dead = aws_server.queue(f"{name}-dead")
    policy = json.dumps(
        {"deadLetterTargetArn": f"arn:aws:sqs:ap-southeast-1:123456789012:{name}-dead", "maxReceiveCount": 2}
    )
    queue = Queue(aws_server, pool, aws_server.queue(name, RedrivePolicy=policy))
    message_id = queue.send(intent("1", type="no_such_type"))
    queue.send(intent("2"))
    with capture_logs() as logs:
        async with queue.consuming():

            async def look() -> bool:
                return await queue.counts(dead) == (1, 0)

            await found(look)
            await queue.empties()

    (refusal,) = await queue.refused()
    assert refusal["message_id"] == message_id
    assert await queue.keys() == ["2"]
    assert len([log for log in logs if log["event"] == "intent refused"]) == 1
    assert "queue without redrive policy" not in {log["event"] for log in logs}


async def test_a_refused_message_can_be_accepted_once_the_catalog_has_its_type(queue: Queue) -> None:
    known = queue.planner
    queue.planner = msgspec.structs.replace(known, catalog=load_catalog(GALAXY))
    queue.send(intent("1"))
    async with queue.consuming():
        await queue.reaches(1, "refused_intents")
    queue.planner = known
    async with queue.consuming():
        await queue.empties()

    assert await queue.keys() == ["1"]
    assert [row["code"] for row in await queue.refused()] == ["unknown_type"]


async def test_a_queue_without_redrive_policy_is_warned_of(queue: Queue) -> None:
    with capture_logs() as logs:
        async with queue.consuming():
            await until(lambda: any(log["event"] == "queue without redrive policy" for log in logs))

    (warning,) = [log for log in logs if log["event"] == "queue without redrive policy"]
    assert "queues.shop.refused" in warning["detail"]


def test_a_refused_message_comes_again_soon_and_then_later() -> None:
    assert [pause_of(receives) for receives in (1, 2, 3, 4, 10, 11, 10**12)] == [1, 2, 4, 8, 512, 900, 900]


async def test_poison_that_was_received_often_does_not_block_its_group(fifo: Queue) -> None:
    """While a message of a group is invisible, a FIFO queue hands out none that come later in the group."""
    for number in range(12):
        body = intent(str(number)) if number else "poison"
        fifo.send(body, MessageGroupId="user-1", MessageDeduplicationId=str(number))
    for _ in range(9):
        [received] = fifo.sqs.receive_message(QueueUrl=fifo.url, MaxNumberOfMessages=1)["Messages"]
        fifo.sqs.change_message_visibility(
            QueueUrl=fifo.url, ReceiptHandle=received["ReceiptHandle"], VisibilityTimeout=0
        )
    async with fifo.consuming():
        await fifo.reaches(11)

    assert await fifo.keys() == [str(number) for number in range(1, 12)]


@pytest.mark.usefixtures("odd_key_fails")
async def test_a_message_that_cannot_be_stored_is_refused_alone(queue: Queue) -> None:
    for key in ("1", "2", "odd", "3"):
        queue.send(intent(key))
    async with queue.consuming(refused="delete"):
        await queue.empties()

    assert sorted(await queue.keys()) == ["1", "2", "3"]
    (refusal,) = await queue.refused()
    assert refusal["faults"][0]["code"] == "not_storable"


@pytest.mark.usefixtures("odd_key_fails")
async def test_an_organisation_sees_what_of_its_queue_cannot_be_stored(queue: Queue) -> None:
    await queue.pool.execute("insert into users (user_id, org_id, updated_at) values ('ada', 'acme', now())")
    queue.send(intent("odd"))
    async with queue.consuming(refused="delete", org_id="acme"):
        await queue.empties()

    assert [row["org_id"] for row in await queue.refused()] == ["acme"]


async def test_while_the_database_is_away_messages_are_held_and_not_received_again(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each receive counts for the redrive policy of the queue."""
    accept = accept_sourced_within
    tries: list[int] = []
    away = asyncio.Event()
    away.set()

    async def failing(*args: Any, **kwargs: Any) -> Any:
        tries.append(1)
        if away.is_set():
            raise asyncpg.ConnectionDoesNotExistError("gone")
        return await accept(*args, **kwargs)

    monkeypatch.setattr(module, "accept_sourced_within", failing)
    queue.send(intent("1"))
    async with queue.consuming():
        await until(lambda: len(tries) >= 3)
        assert await queue.counts() == (0, 1)
        away.clear()
        await queue.empties()

    assert await queue.keys() == ["1"]


async def test_a_stop_ends_while_the_database_is_away(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    tries: list[int] = []

    async def failing(*_: Any, **__: Any) -> None:
        tries.append(1)
        raise asyncpg.ConnectionDoesNotExistError("gone")

    monkeypatch.setattr(module, "accept_sourced_within", failing)
    monkeypatch.setattr(module, "STOP_SECONDS", 0.1)
    queue.send(intent("1"))
    async with queue.consuming():
        await until(lambda: bool(tries))

    assert await queue.counts() == (0, 1)


async def test_a_message_whose_delete_fails_is_accepted_once(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    deletes: list[int] = []
    delete = SqsQueue.delete

    async def failing(self: Any, receipts: Any) -> int:
        deletes.append(1)
        if len(deletes) == 1:
            await self.change_visibility(receipts, 0)
            return len(receipts)
        return await delete(self, receipts)

    monkeypatch.setattr(SqsQueue, "delete", failing)
    queue.send(intent(None))
    async with queue.consuming():
        await queue.empties()

    assert len(deletes) == 2
    assert len(await queue.keys()) == 1
    assert not await queue.refused()


async def test_several_consumers_accept_the_messages_of_a_group_in_order(fifo: Queue) -> None:
    expected: dict[str, list[str]] = {}
    for number in range(40):
        user = f"user-{number % 3}"
        fifo.send(
            intent(f"{user} {number}", user=user), MessageGroupId=user, MessageDeduplicationId=str(number)
        )
        expected.setdefault(user, []).append(f"{user} {number}")
    async with fifo.consuming(), fifo.consuming():
        await fifo.empties()

    keys = await fifo.keys()
    assert {user: [key for key in keys if key.startswith(user)] for user in expected} == expected


async def test_poison_in_a_group_does_not_hold_the_others_up(fifo: Queue) -> None:
    for number in range(5):
        body = "poison" if number == 1 else intent(str(number))
        fifo.send(body, MessageGroupId="user-1", MessageDeduplicationId=str(number))
    async with fifo.consuming():
        await fifo.reaches(4)
        await fifo.reaches(1, "refused_intents")

    assert await fifo.keys() == ["0", "2", "3", "4"]


async def test_sqs_that_is_away_raises_an_alarm_until_it_is_back(queue: Queue) -> None:
    queue.sqs.delete_queue(QueueUrl=queue.url)
    statement = "select detail from alarms where provider = 'sqs:shop' and code = 'sqs_unreachable'"
    async with queue.consuming():

        async def look() -> Any:
            return await queue.pool.fetchval(statement)

        assert "QueueDoesNotExist" in await found(look)
        queue.sqs.create_queue(QueueName=queue.url.rpartition("/")[2])
        queue.send(intent("1"))
        await queue.reaches(1)

        async def cleared() -> bool:
            return not await queue.pool.fetchval(f"{statement} and cleared_at is null")

        await found(cleared)
