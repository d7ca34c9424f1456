"""The CloudFormation template: linted, created in moto, and used."""

import ast
import asyncio
import json
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from cfnlint.decode import cfn_yaml
from redis.asyncio import Redis

from tests.aws.functions.events import envelope, failed
from tests.aws.functions.phones import bodies, received, register_phone
from tests.aws_servers import ACCOUNT, REGION, AwsServer
from tests.catalogs import shipped
from tests.deploy.cloudformation import Stack, own_types
from tests.deploy.files import DEPLOY
from tests.edges.edge import listening, services
from tests.redis_servers import RedisServer
from tocsin.api.app import create_app
from tocsin.api.auth.api_keys import create_key
from tocsin.api.auth.roles import Role
from tocsin.aws import delivery_mobile, delivery_web
from tocsin.aws.functions.settings import PREFIX, mobile_settings, web_settings
from tocsin.aws.packaging.archive import Function
from tocsin.engine.clock import utc_now
from tocsin.store.pool import Pool
from tocsin.wire.streams.client_events import DEFAULT_STREAM

TEMPLATE = DEPLOY / "aws/template.yaml"
TEXT = TEMPLATE.read_text()
PARAMETERS: dict[str, Any] = json.loads(json.dumps(cfn_yaml.load(TEMPLATE)["Parameters"]))
RESOURCES: dict[str, Any] = json.loads(json.dumps(cfn_yaml.load(TEMPLATE)["Resources"]))
BUCKET = "fisa-code"
KEY_PARAMETER, REDIS_PARAMETER = "/fisa-notify/api-key", "/fisa-notify/redis-url"
ANDROID = f"arn:aws:sns:{REGION}:{ACCOUNT}:app/GCM/fisa-android"


def of_type(type_: str) -> dict[str, Any]:
    found = {name: each["Properties"] for name, each in RESOURCES.items() if each["Type"] == type_}
    assert found
    return found


def test_it_is_clean_under_the_linter() -> None:
    done = subprocess.run(
        [Path(sys.executable).parent / "cfn-lint", TEMPLATE], capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_it_is_plain_yaml_without_aliases() -> None:
    assert not any(isinstance(token, yaml.AliasToken) for token in yaml.scan(TEXT))


def test_every_queue_is_encrypted_and_has_dead_letters() -> None:
    for name, queue in of_type("AWS::SQS::Queue").items():
        assert "SqsManagedSseEnabled" in queue
        assert ("RedrivePolicy" in queue) is name.endswith("Queue")


def test_every_queue_takes_messages_of_the_topic_alone() -> None:
    policies = of_type("AWS::SQS::QueuePolicy")
    queues = {name for name in of_type("AWS::SQS::Queue") if name.endswith("Queue")}
    assert {policy["Queues"][0]["Ref"] for policy in policies.values()} == queues
    for policy in policies.values():
        allowed = [each for each in policy["PolicyDocument"]["Statement"] if each["Effect"] == "Allow"]
        assert [(each["Principal"], each["Action"], each["Condition"]) for each in allowed] == [
            (
                {"Service": "sns.amazonaws.com"},
                "sqs:SendMessage",
                {"ArnEquals": {"aws:SourceArn": {"Ref": "Topic"}}},
            )
        ]


def test_no_role_may_do_everything_or_anything_everywhere() -> None:
    roles = of_type("AWS::IAM::Role").values()
    managed = of_type("AWS::IAM::ManagedPolicy")
    [joins] = managed.pop("WebNetworkPolicy")["PolicyDocument"]["Statement"]
    policies = [policy["PolicyDocument"] for role in roles for policy in role["Policies"]]
    policies += [
        policy["PolicyDocument"] for policy in (*managed.values(), *of_type("AWS::IAM::Policy").values())
    ]
    text = json.dumps([policy["Statement"] for policy in policies])

    # An interface has no name before it is made. Policies of AWS would add rights to every log group.
    network = r"ec2:\w+(NetworkInterfaces?|PrivateIpAddresses|Subnets)"
    assert all(re.fullmatch(network, each) for each in joins["Action"])
    assert "iam::aws:policy" not in TEXT
    assert not re.search(r'"Resource": "\*"|"(\w+:)?\*"', text)
    assert set(re.findall(r'"(sns:\w+)"', json.dumps(of_type("AWS::IAM::Role")))) == {"sns:Publish"}


def test_each_function_has_the_variables_and_the_handler_that_there_are() -> None:
    functions = of_type("AWS::Lambda::Function")
    assert {each["Handler"] for each in functions.values()} == {each.handler for each in Function}
    values = {
        "API_URL": "https://x",
        "API_KEY_PARAMETER": "/x",
        "TYPES": "{}",
        "REDIS_URL_PARAMETER": "/x",
    }
    for name, read in (("MobileFunction", mobile_settings), ("WebFunction", web_settings)):
        variables = functions[name]["Environment"]["Variables"]
        read({variable: values[variable.removeprefix(PREFIX)] for variable in variables})


def test_functions_report_single_failures_and_queues_wait_longer_than_they_run() -> None:
    for mapping in of_type("AWS::Lambda::EventSourceMapping").values():
        assert mapping["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
        assert mapping["BatchSize"] <= 10
        assert mapping["ScalingConfig"] == {"MaximumConcurrency": {"Ref": "MaxConcurrency"}}
        function = RESOURCES[mapping["FunctionName"]["Ref"]]["Properties"]
        queue = RESOURCES[mapping["EventSourceArn"]["Fn::GetAtt"][0]]["Properties"]
        assert queue["VisibilityTimeout"] == 6 * function["Timeout"]


def test_everything_that_can_go_wrong_has_an_alarm() -> None:
    alarms = of_type("AWS::CloudWatch::Alarm")
    watched = {(each["MetricName"], json.dumps(each["Dimensions"][0]["Value"])) for each in alarms.values()}
    for name in of_type("AWS::Lambda::Function"):
        assert {("Errors", json.dumps({"Ref": name})), ("Throttles", json.dumps({"Ref": name}))} <= watched
    for name in of_type("AWS::SQS::Queue"):
        dead = name.endswith("DeadLetters")
        metric = "ApproximateNumberOfMessagesVisible" if dead else "ApproximateAgeOfOldestMessage"
        assert (metric, json.dumps({"Fn::GetAtt": [name, "QueueName"]})) in watched


def test_logs_are_kept_for_two_to_four_weeks() -> None:
    assert PARAMETERS["LogRetentionDays"]["AllowedValues"] == [14, 30]
    logs = {each["LogGroupName"]["Fn::Sub"] for each in of_type("AWS::Logs::LogGroup").values()}
    assert logs == {
        f"/aws/lambda/{each['FunctionName']['Fn::Sub']}" for each in of_type("AWS::Lambda::Function").values()
    }


@pytest.fixture(scope="module")
def code_bucket(aws_server: AwsServer) -> str:
    s3 = aws_server.client("s3")
    s3.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION})
    for key in ("delivery-mobile.zip", "delivery-web.zip"):
        s3.put_object(Bucket=BUCKET, Key=key, Body=b"PK\x05\x06" + bytes(18))
    return BUCKET


@pytest.fixture(scope="module")
def types_of_moto(aws_server: AwsServer) -> Iterator[None]:
    with own_types(aws_server):
        yield


@pytest.fixture
def parameters(code_bucket: str) -> dict[str, str]:
    """Give what must be chosen, and the defaults that moto does not fill in."""
    return {
        "CodeBucket": code_bucket,
        "TocsinUrl": "https://tocsin.example.com",
        "ApiKeyParameter": KEY_PARAMETER,
        "AndroidApplicationArn": ANDROID,
        "IosApplicationArn": f"arn:aws:sns:{REGION}:{ACCOUNT}:app/APNS/fisa-ios",
        "RedisUrlParameter": REDIS_PARAMETER,
    }


@pytest.fixture
async def tocsin(
    pool: Pool,
    aws_server: AwsServer,
    redis: Redis,
    redis_server: RedisServer,
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[str]:
    """Run Tocsin's API and store its key and the address of Redis where the functions look for them."""
    assert await redis.ping()
    key = await create_key(pool, "delivery", Role.DELIVERY, utc_now())
    ssm = aws_server.client("ssm")
    for name, value in ((KEY_PARAMETER, key.secret), (REDIS_PARAMETER, redis_server.url)):
        ssm.put_parameter(Name=name, Value=value, Type="SecureString", Overwrite=True)
    monkeypatch.setenv("AWS_ENDPOINT_URL", aws_server.url)
    monkeypatch.setenv("AWS_DEFAULT_REGION", REGION)
    parts = services(pool)
    async with listening(create_app(parts, shipped()), parts.http) as url:
        yield url
    for module in (delivery_mobile, delivery_web):
        if module.build.cache_info().currsize:
            module.build().exits.close()
        module.build.cache_clear()


def pause_functions(aws: AwsServer) -> None:
    """Stop the mappings: moto would run the functions in containers, and the test invokes them."""
    functions = aws.client("lambda")
    for mapping in functions.list_event_source_mappings()["EventSourceMappings"]:
        functions.update_event_source_mapping(UUID=mapping["UUID"], Enabled=False)


def publish(aws: AwsServer, topic: str, events: list[dict[str, Any]]) -> None:
    """Publish as Tocsin does: one message for each recipient, in the recipient's group."""
    sns = aws.client("sns")
    for event in events:
        order = {
            "MessageGroupId": f"user-{event['recipients'][0]}",
            "MessageDeduplicationId": f"{event['event_id']}-{event['recipients'][0]}",
        }
        sns.publish(TopicArn=topic, Message=json.dumps(event), **(order if topic.endswith(".fifo") else {}))


def take_variables(aws: AwsServer, function: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the variables that the template gave a function."""
    made = aws.client("lambda").get_function_configuration(FunctionName=function)
    for name in (f"{PREFIX}API_URL", f"{PREFIX}API_KEY_PARAMETER", f"{PREFIX}REDIS_URL_PARAMETER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv(f"{PREFIX}TYPES", raising=False)
    for name, value in made["Environment"]["Variables"].items():
        monkeypatch.setenv(name, value)


def queue_records(aws: AwsServer, url: str) -> list[dict[str, Any]]:
    """Receive what is in a queue, as Lambda hands it to a function."""
    got = aws.client("sqs").receive_message(
        QueueUrl=url,
        MaxNumberOfMessages=10,
        MessageSystemAttributeNames=["All"],
        MessageAttributeNames=["All"],
        WaitTimeSeconds=0,
    )
    return [
        {
            "messageId": message["MessageId"],
            "body": message["Body"],
            "attributes": message["Attributes"],
            "messageAttributes": {},
            "eventSource": "aws:sqs",
        }
        for message in got.get("Messages", [])
    ]


@pytest.mark.parametrize("kind", ["fifo", "standard"])
@pytest.mark.usefixtures("types_of_moto")
async def test_a_message_goes_from_the_topic_to_phones_browsers_and_the_archive(
    kind: str,
    tocsin: str,
    parameters: dict[str, str],
    pool: Pool,
    redis: Redis,
    aws_server: AwsServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given = {**parameters, "Name": f"flow-{kind}", "TopicType": kind, "TocsinUrl": tocsin}
    stack = await asyncio.to_thread(Stack, aws_server, f"flow-{kind}", TEXT, given)
    assert stack.status == "CREATE_COMPLETE"
    phone = await register_phone(pool, aws_server, "ada")
    pause_functions(aws_server)

    events = [envelope("ada", body=str(number)) for number in range(3)]
    await asyncio.to_thread(publish, aws_server, stack.outputs["TopicArn"], events)

    for name, module in (("mobile", delivery_mobile), ("web", delivery_web)):
        take_variables(aws_server, f"flow-{kind}-{name}", monkeypatch)
        records = queue_records(aws_server, stack.outputs[f"{name.title()}QueueUrl"])
        assert len(records) == 3
        answer = await asyncio.to_thread(module.handler, {"Records": records}, None)
        assert failed(answer) == []
    # A standard topic keeps no order.
    assert (bodies(phone) if kind == "fifo" else sorted(bodies(phone))) == ["0", "1", "2"]
    assert received(phone)[0]["APNS"]["custom"]["deep_link"] == "fisa://work-item/7?tab=comments"
    assert await redis.xlen(DEFAULT_STREAM) == 3
    archived = queue_records(aws_server, stack.outputs["ArchiveQueueUrl"])
    copies = [json.loads(json.loads(record["body"])["Message"]) for record in archived]
    assert copies == events


@pytest.mark.usefixtures("types_of_moto")
async def test_subscriptions_leave_out_events_that_are_not_for_phones(
    parameters: dict[str, str], aws_server: AwsServer
) -> None:
    given = {**parameters, "Name": "filtered", "MobileEventTypes": "ticket.sla_breach_soon,comment.added"}
    stack = await asyncio.to_thread(Stack, aws_server, "filtered", TEXT, given)
    pause_functions(aws_server)

    events = [envelope("ada"), envelope("ada", event_type="work_item.viewed")]
    await asyncio.to_thread(publish, aws_server, stack.outputs["TopicArn"], events)

    counts = {
        name: len(queue_records(aws_server, stack.outputs[f"{name}QueueUrl"]))
        for name in ("Mobile", "Web", "Archive")
    }
    assert counts == {"Mobile": 1, "Web": 2, "Archive": 2}


@pytest.mark.usefixtures("types_of_moto")
async def test_without_a_redis_there_is_nothing_for_browsers(
    parameters: dict[str, str], aws_server: AwsServer
) -> None:
    given = {**parameters, "Name": "phones", "RedisUrlParameter": "", "IosApplicationArn": ""}
    stack = await asyncio.to_thread(Stack, aws_server, "phones", TEXT, given)

    assert not [name for name in stack.resources if name.startswith("Web")]
    assert {"MobileFunction", "ArchiveQueue", "Topic"} <= stack.resources.keys()


@pytest.mark.usefixtures("types_of_moto")
async def test_the_function_may_publish_to_the_endpoints_of_its_applications_alone(
    parameters: dict[str, str], aws_server: AwsServer
) -> None:
    given = {**parameters, "Name": "rights"}
    stack = await asyncio.to_thread(Stack, aws_server, "rights", TEXT, given)

    role = stack.resources["MobileRole"]
    policy = aws_server.client("iam").get_role_policy(RoleName=role, PolicyName="deliver-to-phones")
    # moto keeps what CloudFormation made as the text of a Python value.
    document = ast.literal_eval(policy["PolicyDocument"])
    statements = {each["Sid"]: each for each in document["Statement"]}
    assert statements["PublishToEndpoints"]["Resource"] == [
        f"arn:aws:sns:{REGION}:{ACCOUNT}:endpoint/GCM/fisa-android/*",
        f"arn:aws:sns:{REGION}:{ACCOUNT}:endpoint/APNS/fisa-ios/*",
    ]
    assert statements["ReadKey"]["Resource"].endswith(f":parameter{KEY_PARAMETER}")
    assert statements.keys() == {"ReadQueue", "PublishToEndpoints", "ReadKey", "WriteLogs"}


@pytest.mark.usefixtures("types_of_moto")
async def test_a_key_of_ones_own_encrypts_topic_and_queues(
    parameters: dict[str, str], aws_server: AwsServer
) -> None:
    key = f"arn:aws:kms:{REGION}:{ACCOUNT}:key/1234"
    given = {**parameters, "Name": "own-key", "KmsKeyArn": key}
    stack = await asyncio.to_thread(Stack, aws_server, "own-key", TEXT, given)

    sqs = aws_server.client("sqs")
    for name in ("ArchiveQueue", "MobileQueue", "WebQueue", "MobileDeadLetters"):
        wanted = ["KmsMasterKeyId", "FifoQueue"]
        made = sqs.get_queue_attributes(QueueUrl=stack.resources[name], AttributeNames=wanted)
        assert made["Attributes"] == {"KmsMasterKeyId": key, "FifoQueue": "true"}
    topic = aws_server.client("sns").get_topic_attributes(TopicArn=stack.outputs["TopicArn"])
    assert topic["Attributes"]["KmsMasterKeyId"] == key
    assert {"MobileKeyPolicy", "WebKeyPolicy", "KeyPolicy"} <= stack.resources.keys()
