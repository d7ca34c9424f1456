"""The schema of `messages:send` and the gateway's check of a request against it.

A request is written in the JSON form of protocol buffers: a field may be named `collapse_key` or
`collapseKey`, null means absent, and every fault is reported with its path.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from tocsin.sandbox.fcm_errors import Violation
from tocsin.sandbox.phones import TargetKind

_DURATION = re.compile(r"-?\d+(\.\d{1,9})?s")


class Scalar(msgspec.Struct, frozen=True):
    """A value of one JSON type."""

    name: str
    types: tuple[type, ...]

    def violations(self, value: Any, path: str) -> Iterator[Violation]:
        """Find a value of another type."""
        # bool is an int to Python but not to JSON.
        if not isinstance(value, self.types) or (isinstance(value, bool) and bool not in self.types):
            yield _invalid(path, self.name, value)


class Choice(msgspec.Struct, frozen=True):
    """One of some names."""

    name: str
    values: frozenset[str]

    def violations(self, value: Any, path: str) -> Iterator[Violation]:
        """Find a name that is not one of them."""
        if not isinstance(value, str) or value.upper() not in self.values:
            yield _invalid(path, self.name, value)


class Duration(msgspec.Struct, frozen=True):
    """Seconds, written like `3.5s`."""

    def violations(self, value: Any, path: str) -> Iterator[Violation]:
        """Find anything written otherwise."""
        if not isinstance(value, str) or not _DURATION.fullmatch(value):
            field = path.rpartition(".")[2]
            yield Violation(
                path,
                f"Invalid value at '{path}' (type.googleapis.com/google.protobuf.Duration), "
                f"Field '{field}', Illegal duration format; duration must end with 's'",
            )


class AnyObject(msgspec.Struct, frozen=True):
    """A JSON object that the gateway does not look into."""

    def violations(self, value: Any, path: str) -> Iterator[Violation]:
        """Find what is no object."""
        if not isinstance(value, dict):
            yield _invalid(path, "type.googleapis.com/google.protobuf.Struct", value)


class StringMap(msgspec.Struct, frozen=True):
    """A JSON object whose values are strings."""

    def violations(self, value: Any, path: str) -> Iterator[Violation]:
        """Find values that are no strings."""
        if not isinstance(value, dict):
            yield _invalid(path, "Map", value)
            return
        for index, item in enumerate(value.values()):
            if not isinstance(item, str):
                yield _invalid(f"{path}[{index}].value", "TYPE_STRING", item)


class Repeated(msgspec.Struct, frozen=True):
    """A JSON array of one kind."""

    of: "Kind"

    def violations(self, value: Any, path: str) -> Iterator[Violation]:
        """Find the faults of every item."""
        for index, item in enumerate(value if isinstance(value, list) else [value]):
            yield from self.of.violations(item, f"{path}[{index}]")


class Fields(msgspec.Struct, frozen=True):
    """A nested message, with its fields under both of their names."""

    by_name: Mapping[str, "Kind"]

    def violations(self, value: Any, path: str) -> Iterator[Violation]:
        """Find unknown fields and the faults of known ones."""
        if not isinstance(value, dict):
            yield _invalid(path, "Message", value)
            return
        for name, content in value.items():
            kind = self.by_name.get(name)
            if kind is None:
                place = f" at '{path}'" if path else ""
                text = f'Invalid JSON payload received. Unknown name "{name}"{place}: Cannot find field.'
                yield Violation(path, text)
            elif content is not None:
                yield from kind.violations(content, f"{path}.{name}" if path else name)


Kind = Scalar | Choice | Duration | AnyObject | StringMap | Repeated | Fields


def _invalid(path: str, type_name: str, value: Any) -> Violation:
    shown = msgspec.json.encode(value).decode()
    return Violation(path, f"Invalid value at '{path}' ({type_name}), {shown}")


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


def _fields(**kinds: Kind) -> Fields:
    return Fields({**kinds, **{_camel(name): kind for name, kind in kinds.items()}})


def _choice(name: str, *values: str) -> Choice:
    return Choice(f"type.googleapis.com/google.firebase.fcm.v1.{name}", frozenset(values))


_STRING = Scalar("TYPE_STRING", (str,))
_BOOL = Scalar("TYPE_BOOL", (bool,))
_INT32 = Scalar("TYPE_INT32", (int,))
_FLOAT = Scalar("TYPE_FLOAT", (int, float))
_TIMESTAMP = Scalar("type.googleapis.com/google.protobuf.Timestamp", (str,))

_ANDROID_NOTIFICATION = _fields(
    title=_STRING,
    body=_STRING,
    icon=_STRING,
    color=_STRING,
    sound=_STRING,
    tag=_STRING,
    click_action=_STRING,
    body_loc_key=_STRING,
    body_loc_args=Repeated(_STRING),
    title_loc_key=_STRING,
    title_loc_args=Repeated(_STRING),
    channel_id=_STRING,
    ticker=_STRING,
    sticky=_BOOL,
    event_time=_TIMESTAMP,
    local_only=_BOOL,
    notification_priority=_choice(
        "AndroidNotification.NotificationPriority",
        "PRIORITY_UNSPECIFIED",
        "PRIORITY_MIN",
        "PRIORITY_LOW",
        "PRIORITY_DEFAULT",
        "PRIORITY_HIGH",
        "PRIORITY_MAX",
    ),
    default_sound=_BOOL,
    default_vibrate_timings=_BOOL,
    default_light_settings=_BOOL,
    vibrate_timings=Repeated(Duration()),
    visibility=_choice(
        "AndroidNotification.Visibility", "VISIBILITY_UNSPECIFIED", "PRIVATE", "PUBLIC", "SECRET"
    ),
    notification_count=_INT32,
    light_settings=_fields(
        color=_fields(red=_FLOAT, green=_FLOAT, blue=_FLOAT, alpha=_FLOAT),
        light_on_duration=Duration(),
        light_off_duration=Duration(),
    ),
    image=_STRING,
    proxy=_choice("AndroidNotification.Proxy", "PROXY_UNSPECIFIED", "ALLOW", "DENY", "IF_PRIORITY_LOWERED"),
)

_MESSAGE = _fields(
    name=_STRING,
    data=StringMap(),
    notification=_fields(title=_STRING, body=_STRING, image=_STRING),
    android=_fields(
        collapse_key=_STRING,
        priority=_choice("AndroidMessagePriority", "NORMAL", "HIGH"),
        ttl=Duration(),
        restricted_package_name=_STRING,
        data=StringMap(),
        notification=_ANDROID_NOTIFICATION,
        fcm_options=_fields(analytics_label=_STRING),
        direct_boot_ok=_BOOL,
        bandwidth_constrained_ok=_BOOL,
        restricted_satellite_ok=_BOOL,
    ),
    webpush=_fields(
        headers=StringMap(),
        data=StringMap(),
        notification=AnyObject(),
        fcm_options=_fields(link=_STRING, analytics_label=_STRING),
    ),
    apns=_fields(
        headers=StringMap(),
        payload=AnyObject(),
        fcm_options=_fields(analytics_label=_STRING, image=_STRING),
        live_activity_token=_STRING,
    ),
    fcm_options=_fields(analytics_label=_STRING),
    token=_STRING,
    fid=_STRING,
    topic=_STRING,
    condition=_STRING,
)

TARGETS: tuple[TargetKind, ...] = ("token", "fid", "topic", "condition")
_REQUEST = _fields(message=_MESSAGE, validate_only=_BOOL)


def request_violations(request: dict[str, Any]) -> list[Violation]:
    """Name every field of a request that does not fit the schema."""
    return [*_REQUEST.violations(request, ""), *_second_targets(request.get("message"))]


def _second_targets(message: Any) -> Iterator[Violation]:
    if not isinstance(message, dict):
        return
    named = [name for name in TARGETS if message.get(name) is not None]
    for name in named[1:]:
        text = f"oneof field 'target' is already set. Cannot set '{name}'"
        yield Violation("message", f"Invalid value at 'message' (oneof), {text}")
