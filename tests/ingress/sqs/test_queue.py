"""The calls about a queue: per-entry results, retries, and answers that are none."""

import asyncio
import json
from contextlib import AbstractAsyncContextManager, aclosing
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.aws.scripted_sqs import Answer, ScriptedSqs, scripted_sqs
from tocsin.domain.delivery.backoff import parse_backoff
from tocsin.domain.errors import SettingsError
from tocsin.ingress.sqs import queue as module
from tocsin.ingress.sqs.queue import Received, SqsQueue, region_of
from tocsin.providers.aws import json_calls
from tocsin.providers.aws.json_calls import AwsCallError
from tocsin.providers.aws.settings import AwsSettings


def failed(*entries: dict[str, Any]) -> Answer:
    return 200, json.dumps({"Successful": [], "Failed": list(entries)}).encode()


def opened(server: ScriptedSqs) -> AbstractAsyncContextManager[SqsQueue]:
    return aclosing(SqsQueue("shop", server.queue_url, server.settings))


async def test_only_what_failed_is_deleted_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each answer is about one request; a receipt that is no longer valid is not tried again."""
    monkeypatch.setattr(module, "_RETRY", parse_backoff("exponential(1ms, 1ms, 2, 0)"))
    answers = [
        failed(
            {"Id": "1", "SenderFault": False, "Code": "InternalError"},
            {"Id": "2", "SenderFault": True, "Code": "ReceiptHandleIsInvalid"},
            {"Id": "99", "SenderFault": False},
        ),
        (503, b"<html>"),
        failed(),
    ]
    async with scripted_sqs(lambda *_: answers.pop(0)) as server:
        with capture_logs() as logs:
            async with opened(server) as queue:
                left = await queue.delete(["a", "b", "c"])

    sent = [[entry["ReceiptHandle"] for entry in fields["Entries"]] for _, fields in server.asked]
    assert sent == [["a", "b", "c"], ["b"], ["b"]]
    assert left == 1
    assert [log["messages"] for log in logs if log["event"] == "queue messages not deleted"] == [1]


async def test_deleting_ends_after_a_few_tries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_RETRY", parse_backoff("exponential(1ms, 1ms, 2, 0)"))
    async with scripted_sqs(lambda *_: (500, b"")) as server, opened(server) as queue:
        assert await queue.delete(list("abc")) == 3

    assert len(server.asked) == module.DELETE_TRIES


async def test_many_are_deleted_ten_at_a_time() -> None:
    receipts = [str(number) for number in range(95)]
    async with scripted_sqs(lambda *_: failed()) as server, opened(server) as queue:
        assert await queue.delete(receipts) == 0
        assert await queue.delete([]) == 0

    sent = [[entry["ReceiptHandle"] for entry in fields["Entries"]] for _, fields in server.asked]
    assert sorted(len(each) for each in sent) == [5] + [10] * 9
    assert {receipt for batch in sent for receipt in batch} == set(receipts)


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (
            (400, b'{"__type":"com.amazonaws.sqs#QueueDoesNotExist","message":"arn:secret"}'),
            "QueueDoesNotExist",
        ),
        ((403, b'{"__type":"InvalidSignatureException"}'), "InvalidSignatureException"),
        ((400, b'{"__type":"a b\\n"}'), "status 400"),
        ((503, b"<html>"), "status 503"),
        ((301, b""), "status 301"),
        ((200, b"<html>"), "UnreadableAnswer"),
        ((200, b'{"Messages":[{"MessageId":1}]}'), "UnreadableAnswer"),
        ((200, b'{"Messages":' + b"[" * 100_000), "UnreadableAnswer"),
        ((200, b'{"Messages":"\xff"}'), "UnreadableAnswer"),
    ],
)
async def test_an_answer_that_is_none_has_a_code_and_no_text(answer: Answer, code: str) -> None:
    async with scripted_sqs(lambda *_: answer) as server, opened(server) as queue:
        with pytest.raises(AwsCallError) as raised:
            await queue.receive(wait=0, visibility=10)

    assert str(raised.value) == raised.value.code == code


async def test_half_a_surrogate_pair_does_not_keep_the_others_from_being_read() -> None:
    messages = [{"MessageId": text, "ReceiptHandle": "r", "Body": text} for text in ("a", "\ud800")]
    answer = json.dumps({"Messages": messages}).encode()
    async with scripted_sqs(lambda *_: (200, answer)) as server, opened(server) as queue:
        received = await queue.receive(wait=0, visibility=10)

    assert [message.body for message in received] == ["a", "\ud800"]


async def test_a_connection_that_breaks_is_a_failed_call() -> None:
    async with scripted_sqs(lambda *_: None) as server:
        queue = SqsQueue("shop", server.queue_url, server.settings)
        with pytest.raises(AwsCallError, match="ServerDisconnectedError"):
            await queue.receive(wait=0, visibility=10)
    with pytest.raises(AwsCallError, match="ClientConnectorError"):
        await queue.receive(wait=0, visibility=10)
    await queue.aclose()


async def test_a_receive_that_is_cancelled_hangs_up() -> None:
    """SQS would hand out messages to nobody."""
    asked, gone = asyncio.Event(), asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        asked.set()
        await reader.read()
        gone.set()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/1/q"
    settings = AwsSettings(region="eu-west-1", access_key_id="a", secret_access_key="b")
    async with server, aclosing(SqsQueue("shop", url, settings)) as queue, asyncio.timeout(10):
        receiving = asyncio.create_task(queue.receive(wait=20, visibility=10))
        await asked.wait()
        receiving.cancel()
        await gone.wait()


async def test_an_answer_that_does_not_come_is_a_failed_call() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    silent = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{silent.sockets[0].getsockname()[1]}/1/q"
    settings = AwsSettings(region="eu-west-1", access_key_id="a", secret_access_key="b", timeout=0.1)
    async with silent, aclosing(SqsQueue("shop", url, settings)) as queue:
        with pytest.raises(AwsCallError, match="Timeout"):
            await queue.receive(wait=0, visibility=10)


async def test_without_credentials_the_chain_of_aws_applies(monkeypatch: pytest.MonkeyPatch) -> None:
    async with scripted_sqs(lambda *_: (200, b"{}")) as server:
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAENV")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s")
        monkeypatch.setenv("AWS_SESSION_TOKEN", "temporary")
        async with aclosing(SqsQueue("shop", server.queue_url, AwsSettings(region="eu-west-1"))) as queue:
            assert await queue.receive(wait=0, visibility=10) == []

    assert b"Credential=AKIAENV/" in server.heads[0]
    assert b"x-amz-security-token: temporary" in server.heads[0].lower()


async def test_no_credentials_at_all_are_a_failed_call(monkeypatch: pytest.MonkeyPatch) -> None:
    class NoSession:
        async def get_credentials(self) -> None:
            return None

    monkeypatch.setattr(json_calls, "get_session", NoSession)
    queue = SqsQueue("shop", "http://127.0.0.1:1/1/q", AwsSettings(region="eu-west-1"))
    with pytest.raises(AwsCallError, match="NoCredentials"):
        await queue.receive(wait=0, visibility=10)


async def test_credentials_that_aws_refuses_to_renew_are_a_failed_call(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The role of a pod, say: its token is exchanged at STS, which may refuse that for a while."""

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        error = b"<Error><Code>AccessDenied</Code><Message>arn:secret</Message></Error>"
        body = b"<ErrorResponse>%b</ErrorResponse>" % error
        writer.write(b"HTTP/1.1 403 X\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))
        writer.close()

    sts = await asyncio.start_server(refuse, "127.0.0.1", 0)
    token = tmp_path / "token"
    token.write_text("a token")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(token))
    monkeypatch.setenv("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/reader")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", f"http://127.0.0.1:{sts.sockets[0].getsockname()[1]}")

    queue = SqsQueue("shop", "http://127.0.0.1:1/1/q", AwsSettings(region="eu-west-1"))
    async with sts, aclosing(queue):
        with pytest.raises(AwsCallError) as raised:
            await queue.receive(wait=0, visibility=10)

    assert raised.value.code == "AccessDenied"


@pytest.mark.parametrize("error", [RuntimeError("they are still expired"), KeyError("Expiration")])
async def test_credentials_that_cannot_be_read_are_a_failed_call(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    class Expired:
        async def get_credentials(self) -> None:
            raise error

    monkeypatch.setattr(json_calls, "get_session", Expired)
    queue = SqsQueue("shop", "http://127.0.0.1:1/1/q", AwsSettings(region="eu-west-1"))
    with pytest.raises(AwsCallError, match=type(error).__name__):
        await queue.receive(wait=0, visibility=10)


@pytest.mark.parametrize(
    ("endpoint", "host"),
    [
        ("https://sqs.eu-west-1.amazonaws.com", "sqs.eu-west-1.amazonaws.com"),
        ("https://localhost:443", "localhost"),
        ("http://localhost:80", "localhost"),
        ("http://127.0.0.1:4566", "127.0.0.1:4566"),
        ("https://[::1]:443", "[::1]"),
    ],
)
def test_the_host_that_is_signed_is_the_one_that_is_sent(endpoint: str, host: str) -> None:
    assert json_calls._host(endpoint) == host


def test_a_queue_of_no_region_stops_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "default_region", lambda: "")
    with pytest.raises(SettingsError, match=r"aws\.region"):
        SqsQueue("shop", "http://127.0.0.1:1/1/q", AwsSettings())


@pytest.mark.parametrize(
    ("host", "region"),
    [
        ("sqs.ap-southeast-1.amazonaws.com", "ap-southeast-1"),
        ("sqs.us-gov-west-1.amazonaws.com", "us-gov-west-1"),
        ("sqs.cn-north-1.amazonaws.com.cn", "cn-north-1"),
        ("sqs-fips.us-east-1.amazonaws.com", "us-east-1"),
        ("eu-west-1.queue.amazonaws.com", "eu-west-1"),
        ("sqs.eu-west-1.api.aws", "eu-west-1"),
        ("queue.amazonaws.com", None),
        ("127.0.0.1", None),
        ("localhost.localstack.cloud", None),
    ],
)
def test_the_region_is_that_of_the_queue(host: str, region: str | None) -> None:
    assert region_of(f"https://{host}/123456789012/q") == region


@pytest.mark.parametrize(
    ("system", "sent", "receives"),
    [
        ({"SentTimestamp": "5", "ApproximateReceiveCount": "3"}, 5, 3),
        ({}, None, 1),
        ({"SentTimestamp": "-1", "ApproximateReceiveCount": "0"}, None, 1),
        ({"SentTimestamp": "9" * 5_000, "ApproximateReceiveCount": "٣"}, None, 1),
    ],
)
def test_numbers_that_are_none_are_left_out(system: dict[str, str], sent: int | None, receives: int) -> None:
    message = Received(message_id="m", receipt="r", body="", system=system)

    assert (message.sent_ms, message.receives) == (sent, receives)
