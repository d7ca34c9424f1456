"""The function for phones: from an event to the endpoints, with Tocsin's API behind it."""

import json
from threading import Lock
from typing import Any

import pytest

from tests.aws.functions.conftest import Function
from tests.aws.functions.events import envelope, failed, queue_record, topic_record
from tests.aws.functions.faulty_aws import HANG_UP, NOT_XML, FaultyAws
from tests.aws.functions.phones import bodies, received, register_phone
from tests.aws_servers import ACCOUNT, AwsServer
from tocsin.aws.functions.results import BatchFailedError
from tocsin.domain.people.devices import DeviceSettings
from tocsin.engine.clock import utc_now
from tocsin.store.people import devices, preferences
from tocsin.store.people.devices import DeviceRegistration
from tocsin.store.pool import Pool


async def retired(pool: Pool, user_id: str) -> dict[str, str]:
    async with pool.acquire() as connection:
        rows = await devices.of_user(connection, user_id, include_retired=True)
        tokens = {row["id"]: row["token"] for row in await connection.fetch("select id, token from devices")}
    return {tokens[row.id]: row.retired_reason for row in rows if row.retired_reason}


class Context:
    """The context of an invocation that has so many milliseconds left, each time that it is asked."""

    def __init__(self, *left: int) -> None:
        self._left = [*left]
        self._lock = Lock()

    def get_remaining_time_in_millis(self) -> int:
        with self._lock:
            return self._left.pop(0) if len(self._left) > 1 else self._left[0]


def logged(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    """Return the lines of the function; the API of this process logs in another form."""
    lines = capsys.readouterr().out.splitlines()
    return [json.loads(line) for line in lines if line.startswith("{")]


@pytest.mark.parametrize("raw", [False, True], ids=["wrapped", "raw"])
async def test_a_message_of_a_fifo_queue_reaches_every_phone_of_its_recipient(
    mobile: Function, pool: Pool, aws_server: AwsServer, *, raw: bool
) -> None:
    android = await register_phone(pool, aws_server, "ada")
    iphone = await register_phone(pool, aws_server, "ada", "ios")
    event = envelope("ada")

    answer = await mobile(queue_record(event, "user-ada", raw=raw))

    assert answer == {"batchItemFailures": []}
    assert received(android) == received(iphone)
    [got] = received(android)
    assert got == {
        "default": event["body"],
        "APNS": {
            "aps": {"alert": {"title": "A new comment", "body": event["body"]}, "sound": "default"},
            "deep_link": "fisa://work-item/7?tab=comments",
            "custom": {
                "deep_link": "fisa://work-item/7?tab=comments",
                "extras": {"work_item_id": "7", "priority": "high", "count": 3},
                "icon": "comment",
                "severity": "info",
                "event_id": event["event_id"],
                "event_type": "comment.added",
            },
        },
        "APNS_SANDBOX": got["APNS"],
        "GCM": {
            "fcmV1Message": {
                "message": {
                    "notification": {"title": "A new comment", "body": event["body"]},
                    "data": {
                        "work_item_id": "7",
                        "priority": "high",
                        "count": "3",
                        "deep_link": "fisa://work-item/7?tab=comments",
                        "icon": "comment",
                        "severity": "info",
                        "event_id": event["event_id"],
                        "event_type": "comment.added",
                    },
                    "android": {
                        "priority": "HIGH",
                        "notification": {"tag": event["event_id"], "icon": "comment"},
                    },
                    "apns": {"headers": {"apns-collapse-id": event["event_id"]}},
                }
            }
        },
    }


async def test_a_message_that_a_topic_hands_over_itself_reaches_all_recipients(
    mobile: Function, pool: Pool, aws_server: AwsServer
) -> None:
    phones = [await register_phone(pool, aws_server, user) for user in ("ada", "42")]

    await mobile(topic_record(envelope("ada", 42, "nobody")))

    assert [len(received(phone)) for phone in phones] == [1, 1]


@pytest.mark.parametrize(
    ("group", "recipient", "raw"),
    [("user-ada", None, False), ("broadcast", "ada", False), (None, "ada", True)],
    ids=["group", "attribute", "attribute of a raw message"],
)
async def test_an_envelope_sent_once_for_each_recipient_reaches_each_once(
    mobile: Function,
    pool: Pool,
    aws_server: AwsServer,
    group: str | None,
    recipient: str | None,
    *,
    raw: bool,
) -> None:
    ada, bob = [await register_phone(pool, aws_server, user) for user in ("ada", "bob")]

    await mobile(queue_record(envelope("ada", "bob"), group, recipient=recipient, raw=raw))

    assert (len(received(ada)), len(received(bob))) == (1, 0)


async def test_ten_events_in_a_row_arrive_in_order(
    mobile: Function, pool: Pool, aws_server: AwsServer
) -> None:
    phones = {user: await register_phone(pool, aws_server, user) for user in ("ada", "bob")}
    records = [
        queue_record(envelope(user, body=f"{user} {number}"), f"user-{user}")
        for number in range(10)
        for user in phones
    ]

    assert failed(await mobile(*records)) == []

    for user, phone in phones.items():
        assert bodies(phone) == [f"{user} {number}" for number in range(10)]


async def test_who_opted_out_gets_nothing(mobile: Function, pool: Pool, aws_server: AwsServer) -> None:
    phone = await register_phone(pool, aws_server, "ada")
    await preferences.change(pool, "ada", {"customers": {"push": False}}, utc_now())

    answer = await mobile(queue_record(envelope("ada", event_type="new.customer"), "user-ada"))

    assert failed(answer) == []
    assert received(phone) == []


@pytest.mark.parametrize(
    ("status", "code", "message"),
    [
        (400, "EndpointDisabled", "Endpoint is disabled"),
        (404, "NotFound", "Endpoint does not exist"),
        (400, "InvalidParameter", "Invalid parameter: TargetArn Reason: No endpoint found for the target"),
    ],
)
async def test_an_endpoint_that_is_gone_is_retired_and_the_others_get_the_message(
    mobile: Function,
    pool: Pool,
    aws_server: AwsServer,
    faulty_aws: FaultyAws,
    status: int,
    code: str,
    message: str,
) -> None:
    gone, kept = [await register_phone(pool, aws_server, "ada") for _ in range(2)]
    faulty_aws.fail(gone, status, code, message)

    assert failed(await mobile(queue_record(envelope("ada"), "user-ada"))) == []

    assert await retired(pool, "ada") == {gone: f"gone: {code}"}
    assert len(received(kept)) == 1
    asked = faulty_aws.published.count(gone)
    await mobile(queue_record(envelope("ada"), "user-ada"))
    assert faulty_aws.published.count(gone) == asked


async def test_an_endpoint_of_another_region_waits_for_an_operator_and_is_not_retired(
    mobile: Function, pool: Pool, faulty_aws: FaultyAws, capsys: pytest.CaptureFixture[str]
) -> None:
    arn = f"arn:aws:sns:eu-north-1:{ACCOUNT}:endpoint/GCM/fisa-android/5f1e"
    wanted = DeviceRegistration(user_id="ada", token=arn, platform="android", provider="sns")
    await devices.register(pool, wanted, DeviceSettings(), utc_now())
    # What the SNS of one region answers about the endpoints of another.
    message = "Invalid parameter: TargetArn Reason: No endpoint found for the target arn specified"
    faulty_aws.fail(arn, 400, "InvalidParameter", message)
    record = queue_record(envelope("ada"), "user-ada")

    assert failed(await mobile(record)) == [record["messageId"]]

    assert await retired(pool, "ada") == {}
    [line] = [each for each in logged(capsys) if each["event"] == "publish failed"]
    assert (line["code"], line["alarm"]) == ("other_region", True)


async def test_an_answer_that_is_not_of_sns_is_tried_again(
    mobile: Function,
    pool: Pool,
    aws_server: AwsServer,
    faulty_aws: FaultyAws,
    capsys: pytest.CaptureFixture[str],
) -> None:
    phones = [await register_phone(pool, aws_server, "ada") for _ in range(5)]
    faulty_aws.fail(phones[-1], 403, NOT_XML)
    record = queue_record(envelope("ada"), "user-ada")

    assert failed(await mobile(record)) == [record["messageId"]]

    assert [len(received(phone)) for phone in phones] == [1] * 4 + [0]
    assert {line["event"] for line in logged(capsys)} == {
        "message published",
        "publish failed",
        "message failed",
    }


async def test_an_endpoint_that_sns_itself_disabled_is_retired(
    mobile: Function, pool: Pool, aws_server: AwsServer
) -> None:
    phone = await register_phone(pool, aws_server, "ada")
    aws_server.client("sns").set_endpoint_attributes(EndpointArn=phone, Attributes={"Enabled": "false"})

    assert failed(await mobile(queue_record(envelope("ada"), "user-ada"))) == []

    assert await retired(pool, "ada") == {phone: "gone: EndpointDisabled"}


@pytest.mark.parametrize(
    ("status", "code"),
    [(429, "Throttled"), (503, "ServiceUnavailable"), (0, HANG_UP), (403, "AuthorizationError")],
)
async def test_what_can_be_sent_later_is_reported_with_the_rest_of_its_group(
    mobile: Function, pool: Pool, aws_server: AwsServer, faulty_aws: FaultyAws, status: int, code: str
) -> None:
    ada, bob = [await register_phone(pool, aws_server, user) for user in ("ada", "bob")]
    faulty_aws.fail(ada, status, code)
    records = [queue_record(envelope(user), f"user-{user}") for user in ("ada", "bob", "ada", "bob")]

    answer = await mobile(*records)

    assert failed(answer) == [records[0]["messageId"], records[2]["messageId"]]
    assert (len(received(ada)), len(received(bob))) == (0, 2)
    # Tried again by boto3 at most once, and the second message of the group not at all.
    assert faulty_aws.published.count(ada) <= 2
    assert await retired(pool, "ada") == {}

    faulty_aws.faults.clear()
    assert failed(await mobile(records[0], records[2])) == []
    assert bodies(ada) == [json.loads(json.loads(records[n]["body"])["Message"])["body"] for n in (0, 2)]


async def test_a_retry_leaves_out_the_phones_that_got_the_message(
    mobile: Function, pool: Pool, aws_server: AwsServer, faulty_aws: FaultyAws
) -> None:
    reached, busy = [await register_phone(pool, aws_server, "ada") for _ in range(2)]
    faulty_aws.fail(busy, 429, "Throttled")
    record = queue_record(envelope("ada"), "user-ada")
    assert failed(await mobile(record)) == [record["messageId"]]

    faulty_aws.faults.clear()
    assert failed(await mobile(record)) == []

    assert (len(received(reached)), len(received(busy))) == (1, 1)


async def test_after_a_cold_start_a_repeat_has_the_same_tag(
    mobile: Function, pool: Pool, aws_server: AwsServer
) -> None:
    phone = await register_phone(pool, aws_server, "ada")
    record = queue_record(envelope("ada"), "user-ada")
    await mobile(record)
    mobile.restart()
    await mobile(record)

    first, second = received(phone)
    assert first == second


@pytest.mark.parametrize(
    "poison",
    [
        "no JSON",
        '{"event_id": "e"}',
        "[" * 100_000,
        '"\ud800"',
        json.dumps(envelope("ada", title="", body="")),
        json.dumps(envelope("ada", extras={"deep": None})).replace("null", "[" * 70 + "]" * 70),
    ],
    ids=["text", "incomplete", "deep", "surrogate", "empty", "deep extras"],
)
async def test_what_is_no_envelope_is_left_to_the_redrive_policy_and_holds_up_nobody(
    mobile: Function, pool: Pool, aws_server: AwsServer, poison: str
) -> None:
    phone = await register_phone(pool, aws_server, "ada")
    records = [
        queue_record(poison, "user-ada", raw=True),
        queue_record(envelope("ada", body="after"), "user-ada"),
    ]

    assert failed(await mobile(*records)) == [records[0]["messageId"]]

    assert bodies(phone) == ["after"]


async def test_a_message_that_sns_refuses_is_left_to_the_redrive_policy(
    mobile: Function, pool: Pool, aws_server: AwsServer, faulty_aws: FaultyAws
) -> None:
    phone = await register_phone(pool, aws_server, "ada")
    faulty_aws.fail(phone, 400, "InvalidParameter", "Invalid parameter: Message too long", times=1)
    records = [queue_record(envelope("ada", body=text), "user-ada") for text in ("refused", "after")]

    assert failed(await mobile(*records)) == [records[0]["messageId"]]

    assert bodies(phone) == ["after"]
    assert await retired(pool, "ada") == {}


async def test_a_message_that_sns_refuses_for_one_phone_is_not_repeated_to_the_others(
    mobile: Function,
    pool: Pool,
    aws_server: AwsServer,
    faulty_aws: FaultyAws,
    capsys: pytest.CaptureFixture[str],
) -> None:
    android = await register_phone(pool, aws_server, "ada")
    iphone = await register_phone(pool, aws_server, "ada", "ios")
    faulty_aws.fail(iphone, 400, "InvalidParameter", "Invalid parameter: Attributes")

    assert failed(await mobile(queue_record(envelope("ada"), "user-ada"))) == []

    assert len(received(android)) == 1
    assert [line["code"] for line in logged(capsys) if line["event"] == "publish refused"] == [
        "InvalidParameter"
    ]


async def test_an_event_of_a_topic_is_repeated_whole_if_something_failed(
    mobile: Function, pool: Pool, aws_server: AwsServer, faulty_aws: FaultyAws
) -> None:
    phone = await register_phone(pool, aws_server, "ada")
    faulty_aws.fail(phone, 503, "InternalError")

    with pytest.raises(BatchFailedError, match="1 of 1"):
        await mobile(topic_record(envelope("ada")))


async def test_log_lines_have_the_correlation_id_and_no_endpoint(
    mobile: Function,
    pool: Pool,
    aws_server: AwsServer,
    faulty_aws: FaultyAws,
    capsys: pytest.CaptureFixture[str],
) -> None:
    gone, busy, _ = [await register_phone(pool, aws_server, "ada") for _ in range(3)]
    faulty_aws.fail(gone, 400, "EndpointDisabled")
    faulty_aws.fail(busy, 429, "Throttled", f"do not log {busy}")
    event = envelope("ada")
    record = queue_record(event, "user-ada")

    await mobile(record)

    lines = logged(capsys)
    assert {line["event"] for line in lines} == {
        "endpoint gone",
        "publish failed",
        "message published",
        "message failed",
    }
    assert {line.get("message_id") for line in lines} == {record["messageId"]}
    assert {(line["correlation_id"], line["event_id"]) for line in lines} == {
        (event["correlation_id"], event["event_id"])
    }
    [published] = [line for line in lines if line["event"] == "message published"]
    assert (published["sent"], published["gone"], published["failed"]) == (1, 1, 1)
    assert "arn:" not in json.dumps(lines)
    assert event["body"] not in json.dumps(lines)


async def test_an_envelope_for_everybody_is_skipped(
    mobile: Function, capsys: pytest.CaptureFixture[str]
) -> None:
    assert failed(await mobile(queue_record(envelope(), "broadcast"))) == []
    assert [line["event"] for line in logged(capsys)] == ["envelope without recipients skipped"]
