"""The settings of metrics."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta


class MetricsSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The address of `/metrics`, which Prometheus scrapes; off unless `port` is set.

    With `tocsin serve`, the one port shows every process. With `names` = `galaxy`, exporters of OpenTelemetry
    have the names of the galaxy notification service beside Tocsin's own.
    """

    host: Annotated[str, Meta(min_length=1)] = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65_535)] | None = None
    names: Literal["tocsin", "galaxy"] = "tocsin"
