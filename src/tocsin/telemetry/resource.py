"""What traces and metrics are exported as: the service and this process of it."""

import os
from importlib.metadata import version

from opentelemetry.sdk.environment_variables import OTEL_RESOURCE_ATTRIBUTES
from opentelemetry.sdk.resources import SERVICE_INSTANCE_ID, SERVICE_NAME, SERVICE_VERSION, Resource

from tocsin.domain.ids import uuid7


def own_resource() -> Resource:
    """Return the resource of this process; `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES` come first."""
    own = {SERVICE_NAME: "tocsin", SERVICE_VERSION: version("tocsin"), SERVICE_INSTANCE_ID: str(uuid7())}
    given = {
        pair.partition("=")[0].strip() for pair in os.environ.get(OTEL_RESOURCE_ATTRIBUTES, "").split(",")
    }
    if os.environ.get("OTEL_SERVICE_NAME"):
        given.add(SERVICE_NAME)
    return Resource.create({name: value for name, value in own.items() if name not in given})
