"""The stand-in for SNS answers the stock clients of AWS as SNS does."""

import asyncio
import os
from collections.abc import AsyncIterator
from typing import Any

import boto3
import msgspec
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from tests.javascript.packages import package, program
from tests.providers.sandboxes import calling
from tocsin.sandbox import Outage, Quota, Refuse, Sandbox

REGION = "ap-southeast-1"
GCM = f"arn:aws:sns:{REGION}:123456789012:app/GCM/fisa-android"
APNS = f"arn:aws:sns:{REGION}:123456789012:app/APNS/fisa-ios"


def json(**by_service: Any) -> str:
    return msgspec.json.encode({"default": "hello", **by_service}).decode()


PUSH = json(GCM=json(fcmV1Message={"message": {"data": {"delivery_id": "d-1"}}}))


@pytest.fixture(scope="module")
async def running() -> AsyncIterator[Sandbox]:
    async with Sandbox() as opened:
        yield opened


@pytest.fixture
def sandbox(running: Sandbox) -> Sandbox:
    running.reset()
    return running


@pytest.fixture
def sns(sandbox: Sandbox) -> Any:
    return boto3.client(
        "sns",
        endpoint_url=sandbox.http_url,
        region_name=REGION,
        aws_access_key_id="sandbox",
        aws_secret_access_key="sandbox",
        config=Config(retries={"total_max_attempts": 1}),
    )


async def call(function: Any, **arguments: Any) -> Any:
    return await asyncio.to_thread(function, **arguments)


async def refused(function: Any, **arguments: Any) -> tuple[int, str, str]:
    with pytest.raises(ClientError) as raised:
        await call(function, **arguments)
    error = raised.value.response
    return error["ResponseMetadata"]["HTTPStatusCode"], error["Error"]["Code"], error["Error"]["Message"]


async def test_the_stock_javascript_client_takes_an_endpoint_through_its_life(sandbox: Sandbox) -> None:
    folder = package("@aws-sdk/client-sns").parents[2]
    node = await asyncio.create_subprocess_exec(
        program("node", "nodejs"),
        str(folder / "mobile_push.mjs"),
        *(sandbox.http_url, REGION, GCM, "t1"),
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "AWS_ACCESS_KEY_ID": "sandbox", "AWS_SECRET_ACCESS_KEY": "sandbox"},
    )
    printed, _ = await node.communicate()
    created, again, changed, read, sent, malformed, off, disabled, gone, gone_again, unknown, dead = (
        msgspec.json.decode(printed)
    )

    arn = created["EndpointArn"]
    assert arn.startswith(f"{GCM.replace(':app/', ':endpoint/')}/")
    assert (again["status"], again["error"]) == (400, "InvalidParameterException")
    assert again["message"].startswith(
        f"Invalid parameter: Token Reason: Endpoint {arn} already exists with the same Token"
    )
    assert changed["status"] == off["status"] == gone["status"] == gone_again["status"] == 200
    assert read["Attributes"] == {"Enabled": "true", "Token": "t1", "CustomUserData": "bob <&> ütf"}
    assert sent["MessageId"]
    assert malformed["error"] == "InvalidParameterException"
    assert (disabled["error"], disabled["status"]) == ("EndpointDisabledException", 400)
    assert (unknown["error"], unknown["status"]) == ("NotFoundException", 404)
    assert "No endpoint found for the target arn" in dead["message"]
    (arrived,) = sandbox.phones.messages(after=0, limit=10)
    assert (arrived.target, arrived.message_id, arrived.delivery_id) == (arn, sent["MessageId"], "d-1")
    shown = arrived.message["payload"]["fcmV1Message"]["message"]["notification"]
    assert shown == {"title": "Hello", "body": "world & all"}
    assert arrived.message["attributes"] == {"AWS.SNS.MOBILE.FCM.TTL": "60"}


async def test_an_identical_endpoint_is_returned_and_another_application_has_its_own(sns: Any) -> None:
    first = await call(sns.create_platform_endpoint, PlatformApplicationArn=GCM, Token="ab12")
    again = await call(sns.create_platform_endpoint, PlatformApplicationArn=GCM, Token="ab12")
    other = await call(sns.create_platform_endpoint, PlatformApplicationArn=APNS, Token="ab12")

    assert first["EndpointArn"] == again["EndpointArn"] != other["EndpointArn"]


async def test_a_token_moves_to_no_endpoint_while_another_has_it(sns: Any) -> None:
    first = await call(sns.create_platform_endpoint, PlatformApplicationArn=GCM, Token="t1")
    second = await call(sns.create_platform_endpoint, PlatformApplicationArn=GCM, Token="t2")

    status, code, text = await refused(
        sns.set_endpoint_attributes, EndpointArn=second["EndpointArn"], Attributes={"Token": "t1"}
    )

    assert (status, code) == (400, "InvalidParameter")
    assert first["EndpointArn"] in text


@pytest.mark.parametrize(
    ("application", "token"),
    [("arn:aws:sns:eu-west-1:1:app/GCM/x", "t1"), ("fisa", "t1"), (APNS, "not hexadecimal"), (GCM, "")],
)
async def test_what_sns_refuses_to_create_is_refused(sns: Any, application: str, token: str) -> None:
    _, code, _ = await refused(sns.create_platform_endpoint, PlatformApplicationArn=application, Token=token)

    assert code == "InvalidParameter"


@pytest.mark.parametrize(
    "message",
    [
        {"Message": "[]", "MessageStructure": "json"},
        {"Message": '{"GCM": "{}"}', "MessageStructure": "json"},
        {"Message": '{"default": "x", "GCM": {}}', "MessageStructure": "json"},
        {"Message": '{"default": "x", "GCM": "no JSON"}', "MessageStructure": "json"},
        {"Message": json(GCM=json(fcmV1Message={"message": {"token": "t"}})), "MessageStructure": "json"},
        {"Message": "x" * 262_145},
    ],
)
async def test_a_message_that_sns_refuses_does_not_arrive(
    sandbox: Sandbox, sns: Any, message: dict[str, str]
) -> None:
    made = await call(sns.create_platform_endpoint, PlatformApplicationArn=GCM, Token="t1")

    status, code, _ = await refused(sns.publish, TargetArn=made["EndpointArn"], **message)

    assert (status, code) == (400, "InvalidParameter")
    assert sandbox.phones.count == 0


async def test_the_endpoint_of_a_removed_app_is_disabled_until_it_is_enabled_again(
    sandbox: Sandbox, sns: Any
) -> None:
    arn = (await call(sns.create_platform_endpoint, PlatformApplicationArn=GCM, Token="t1"))["EndpointArn"]
    sandbox.phones.unregister(arn)

    _, code, _ = await refused(sns.publish, TargetArn=arn, Message=PUSH, MessageStructure="json")
    read = await call(sns.get_endpoint_attributes, EndpointArn=arn)
    sandbox.phones.register(arn)
    await call(sns.set_endpoint_attributes, EndpointArn=arn, Attributes={"Enabled": "true"})
    sent = await call(sns.publish, TargetArn=arn, Message=PUSH, MessageStructure="json")

    assert code == "EndpointDisabled"
    assert read["Attributes"]["Enabled"] == "false"
    assert sent["MessageId"]


async def test_faults_are_scripted_and_limits_are_kept(sandbox: Sandbox, sns: Any) -> None:
    arn = (await call(sns.create_platform_endpoint, PlatformApplicationArn=GCM, Token="t1"))["EndpointArn"]
    push = {"TargetArn": arn, "Message": PUSH, "MessageStructure": "json"}
    sandbox.sns.faults.script(arn, Refuse("KMSThrottling"))
    scripted = await refused(sns.publish, **push)
    sandbox.sns.faults.device_quota(Quota(1))
    await call(sns.publish, **push)
    limited = await refused(sns.publish, **push)
    sandbox.sns.faults.outage(Outage())
    away = await refused(sns.publish, **push)

    assert [each[1] for each in (scripted, limited, away)] == [
        "KMSThrottling",
        "Throttled",
        "ServiceUnavailable",
    ]
    assert sandbox.phones.count == 1


async def test_a_call_that_is_not_signed_or_not_known_is_refused(sandbox: Sandbox, sns: Any) -> None:
    async with calling(sandbox, authorized=False) as caller:
        unsigned = await caller.call("POST", "/", b"Action=Publish&Version=2010-03-31")
        garbage = await caller.call("POST", "/", b"\xff\xfe" * 100)
    _, unknown, _ = await refused(sns.list_topics)

    assert (unsigned.status, garbage.status) == (403, 400)
    assert b"MissingAuthenticationToken" in unsigned.body
    assert unknown == "InvalidAction"
