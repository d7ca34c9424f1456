"""Phones with endpoints at moto's SNS, registered with Tocsin."""

import json
from itertools import count
from typing import Any

from moto.sns.models import sns_backends

from tests.aws_servers import ACCOUNT, REGION, AwsServer
from tocsin.domain.people.devices import DeviceSettings
from tocsin.engine.clock import utc_now
from tocsin.store.people import devices
from tocsin.store.people.devices import DeviceRegistration, Registered
from tocsin.store.pool import Pool

_numbers = count(1)
PLATFORMS = {"android": "GCM", "ios": "APNS"}


def new_endpoint(aws: AwsServer, platform: str = "android") -> str:
    """Make an endpoint of a platform application and return its ARN."""
    sns = aws.client("sns")
    application = sns.create_platform_application(
        Name=f"fisa-{platform}", Platform=PLATFORMS[platform], Attributes={}
    )["PlatformApplicationArn"]
    made = sns.create_platform_endpoint(
        PlatformApplicationArn=application, Token=f"token-{next(_numbers)}", CustomUserData=""
    )
    arn: str = made["EndpointArn"]
    return arn


async def register_phone(pool: Pool, aws: AwsServer, user_id: str, platform: str = "android") -> str:
    """Give a person a phone and return the ARN of its endpoint."""
    arn = new_endpoint(aws, platform)
    wanted = DeviceRegistration(user_id=user_id, token=arn, platform=platform, provider="sns")
    assert isinstance(await devices.register(pool, wanted, DeviceSettings(), utc_now()), Registered)
    return arn


def received(arn: str) -> list[dict[str, Any]]:
    """Return what an endpoint got, in order: the parts by platform, decoded."""
    messages = sns_backends[ACCOUNT][REGION].platform_endpoints[arn].messages.values()
    return [
        {name: part if name == "default" else json.loads(part) for name, part in json.loads(each).items()}
        for each in messages
    ]


def bodies(arn: str) -> list[str]:
    """Return the texts that an endpoint got, in order."""
    return [each["APNS"]["aps"]["alert"]["body"] for each in received(arn)]
