"""The settings of dispatch."""

from typing import Annotated

import msgspec
from msgspec import Meta


class DispatchSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a worker claims."""

    lease_seconds: Annotated[float, Meta(gt=0, le=3_600)] = 60.0
    poll_seconds: Annotated[float, Meta(gt=0, le=300)] = 1.0
    stop_seconds: Annotated[float, Meta(gt=0, le=600)] = 20.0
