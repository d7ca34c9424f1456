"""The function that delivers envelopes to phones: `tocsin.aws.delivery_mobile.handler`."""

import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from functools import cache
from typing import Any

from tocsin.aws.functions.batch import Runner
from tocsin.aws.functions.mobile.delivery import Endpoints, MobileDelivery
from tocsin.aws.functions.mobile.endpoints_api import ApiEndpoints
from tocsin.aws.functions.mobile.publisher import EndpointPublisher
from tocsin.aws.functions.parameters import Secret, aws_client
from tocsin.aws.functions.settings import MobileSettings, mobile_settings

GROUPS_AT_ONCE = 8
PUBLISHES_AT_ONCE = 16


def handler(event: Any, context: Any) -> dict[str, Any]:
    """Deliver the messages of a queue or a topic; see the guide on AWS for the settings."""
    return build().run(event, context)


@cache
def build() -> Runner:
    """Build what every invocation of this process uses."""
    settings = mobile_settings(os.environ)
    exits = ExitStack()
    # A group waits for its publishes, so these have threads of their own.
    publishing = exits.enter_context(ThreadPoolExecutor(PUBLISHES_AT_ONCE, "publish"))
    groups = exits.enter_context(ThreadPoolExecutor(GROUPS_AT_ONCE, "group"))
    sns = exits.enter_context(closing(aws_client("sns", PUBLISHES_AT_ONCE)))
    endpoints = exits.enter_context(closing(_endpoints(settings)))
    delivery = MobileDelivery(endpoints, EndpointPublisher(sns, publishing), settings.types)
    return Runner(delivery.deliver, groups, exits)


def _endpoints(settings: MobileSettings) -> Endpoints:
    if settings.api_url is not None:
        key = Secret(settings.api_key, settings.api_key_parameter)
        return ApiEndpoints(settings.api_url, key, GROUPS_AT_ONCE)
    # Only a package with a driver has it.
    from tocsin.aws.functions.mobile.endpoints_database import DatabaseEndpoints  # noqa: PLC0415

    url = Secret(settings.database_url, settings.database_url_parameter)
    return DatabaseEndpoints(url, settings.schema, settings.categories, org_scoping=settings.org_scoping)
