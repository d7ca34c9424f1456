"""The function that hands envelopes to the gateway: `tocsin.aws.delivery_web.handler`."""

import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from functools import cache
from typing import Any

from tocsin.aws.functions.batch import Runner
from tocsin.aws.functions.parameters import Secret
from tocsin.aws.functions.settings import web_settings
from tocsin.aws.functions.web import WebDelivery

GROUPS_AT_ONCE = 4


def handler(event: Any, context: Any) -> dict[str, Any]:
    """Hand the messages of a queue or a topic to the gateway; see the guide on AWS for the settings."""
    return build().run(event, context)


@cache
def build() -> Runner:
    """Build what every invocation of this process uses."""
    settings = web_settings(os.environ)
    url = Secret(settings.redis_url or "", settings.redis_url_parameter)
    exits = ExitStack()
    groups = exits.enter_context(ThreadPoolExecutor(GROUPS_AT_ONCE, "group"))
    delivery = exits.enter_context(closing(WebDelivery(url, settings.stream, settings.max_len)))
    return Runner(lambda record, _: delivery.deliver(record), groups, exits)
