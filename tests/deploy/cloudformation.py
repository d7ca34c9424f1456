"""A stack in moto, with the types of resources that moto's CloudFormation does not create by itself.

Each is made by the call that CloudFormation makes for it; what refers to what is resolved by moto.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from moto.cloudformation import parsing
from moto.core.common_models import CloudFormationModel

from tests.aws_servers import AwsServer

_CACHES = (parsing.get_model_list, parsing.get_model_map, parsing.get_name_type_map)


def _subscribe(aws: AwsServer, _: str, wanted: Mapping[str, Any]) -> str:
    attributes = {
        name: value if isinstance(value, str) else json.dumps(value)
        for name, value in wanted.items()
        if name in {"RawMessageDelivery", "FilterPolicyScope", "FilterPolicy"}
    }
    made = aws.client("sns").subscribe(
        TopicArn=wanted["TopicArn"],
        Protocol=wanted["Protocol"],
        Endpoint=wanted["Endpoint"],
        Attributes=attributes,
    )
    return str(made["SubscriptionArn"])


def _set_queue_policy(aws: AwsServer, name: str, wanted: Mapping[str, Any]) -> str:
    for url in wanted["Queues"]:
        policy = {"Policy": json.dumps(wanted["PolicyDocument"])}
        aws.client("sqs").set_queue_attributes(QueueUrl=url, Attributes=policy)
    return name


def _set_topic_policy(aws: AwsServer, name: str, wanted: Mapping[str, Any]) -> str:
    for arn in wanted["Topics"]:
        aws.client("sns").set_topic_attributes(
            TopicArn=arn, AttributeName="Policy", AttributeValue=json.dumps(wanted["PolicyDocument"])
        )
    return name


def _put_alarm(aws: AwsServer, name: str, wanted: Mapping[str, Any]) -> str:
    numbers = {"Threshold": float, "Period": int, "EvaluationPeriods": int}
    given = {key: numbers[key](value) if key in numbers else value for key, value in wanted.items()}
    aws.client("cloudwatch").put_metric_alarm(AlarmName=name, **given)
    return name


_MAKERS: dict[str, Callable[[AwsServer, str, Mapping[str, Any]], str]] = {
    "AWS::SNS::Subscription": _subscribe,
    "AWS::SNS::TopicPolicy": _set_topic_policy,
    "AWS::SQS::QueuePolicy": _set_queue_policy,
    "AWS::CloudWatch::Alarm": _put_alarm,
}


@contextmanager
def own_types(aws: AwsServer) -> Iterator[None]:
    """Have moto's CloudFormation create the other types too."""
    kinds = [_model(aws, type_, maker) for type_, maker in _MAKERS.items()]
    for cache in _CACHES:
        cache.cache_clear()
    # Models are found among the subclasses of one class for as long as these exist.
    assert {kind.cloudformation_type() for kind in kinds} <= parsing.get_model_map().keys()
    yield
    for cache in _CACHES:
        cache.cache_clear()


def _model(
    aws: AwsServer, type_: str, maker: Callable[[AwsServer, str, Mapping[str, Any]], str]
) -> type[CloudFormationModel]:
    class Model(CloudFormationModel):
        def __init__(self, name: str) -> None:
            self.physical_resource_id = name

        @staticmethod
        def cloudformation_name_type() -> str:
            return ""

        @staticmethod
        def cloudformation_type() -> str:
            return type_

        @classmethod
        def create_from_cloudformation_json(
            cls, resource_name: str, cloudformation_json: Any, *_: Any, **__: Any
        ) -> "Model":
            return cls(maker(aws, resource_name, cloudformation_json["Properties"]))

    return Model


class Stack:
    """A stack that was created: its outputs, and its resources by logical id."""

    def __init__(self, aws: AwsServer, name: str, template: str, parameters: Mapping[str, str]) -> None:
        cloudformation = aws.client("cloudformation")
        given = [{"ParameterKey": key, "ParameterValue": value} for key, value in parameters.items()]
        cloudformation.create_stack(StackName=name, TemplateBody=template, Parameters=given)
        [stack] = cloudformation.describe_stacks(StackName=name)["Stacks"]
        self.status = stack["StackStatus"]
        self.outputs = {each["OutputKey"]: each["OutputValue"] for each in stack.get("Outputs", [])}
        resources = cloudformation.list_stack_resources(StackName=name)["StackResourceSummaries"]
        self.resources = {each["LogicalResourceId"]: each["PhysicalResourceId"] for each in resources}
