"""The faults that can be set on a stand-in, as plain data."""

from typing import Annotated, Literal

import msgspec

Seconds = Annotated[float, msgspec.Meta(ge=0)]
PositiveSeconds = Annotated[float, msgspec.Meta(gt=0)]
RetryAfter = Annotated[int, msgspec.Meta(ge=0)]
Probability = Annotated[float, msgspec.Meta(ge=0, le=1)]


class Pass(msgspec.Struct, frozen=True, tag="pass", tag_field="kind", forbid_unknown_fields=True):
    """Handle this message as if nothing had been scripted."""


class Refuse(msgspec.Struct, frozen=True, tag="refuse", tag_field="kind", forbid_unknown_fields=True):
    """Answer with one of the provider's own errors, named by its code."""

    code: str
    retry_after: RetryAfter | None = None


class Hang(msgspec.Struct, frozen=True, tag="hang", tag_field="kind", forbid_unknown_fields=True):
    """Never answer, until the caller times out; with `delivered` the phone receives the message anyway."""

    delivered: bool = False


class Cut(msgspec.Struct, frozen=True, tag="cut", tag_field="kind", forbid_unknown_fields=True):
    """End the connection within the answer; with `delivered` the phone receives the message anyway."""

    delivered: bool = False


Fault = Pass | Refuse | Hang | Cut
"""The effect on one request."""


class Script(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The faults of the next requests for one target, in order; `repeat` starts over at the end."""

    steps: Annotated[tuple[Fault, ...], msgspec.Meta(min_length=1)]
    repeat: bool = False


class Chance(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A fault that a share of all requests meets."""

    probability: Probability
    fault: Fault


class Latency(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How long an answer takes: `min_seconds`, or evenly spread up to `max_seconds`."""

    min_seconds: Seconds
    max_seconds: Seconds | None = None


class Quota(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """At most `limit` messages in each window of time."""

    limit: Annotated[int, msgspec.Meta(ge=0)]
    per_seconds: PositiveSeconds = 60.0
    retry_after: RetryAfter | None = None


class Outage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Everything is refused, for some seconds or until the outage is ended."""

    seconds: PositiveSeconds | None = None
    retry_after: RetryAfter | None = None
    covers: Literal["messages", "tokens", "everything"] = "messages"


class ActiveFaults(msgspec.Struct, frozen=True, kw_only=True):
    """Every fault that is active at one moment."""

    scripts: dict[str, Script]
    chances: tuple[Chance, ...]
    latency: Latency | None
    project_quota: Quota | None
    device_quota: Quota | None
    outage: Outage | None
