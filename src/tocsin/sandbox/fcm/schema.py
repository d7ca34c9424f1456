"""The schema of `messages:send` and the gateway's check of a request against it.

A request is written in the JSON form of protocol buffers: a field may be named `collapse_key` or
`collapseKey`, null means absent, and every fault is reported with its path.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from tocsin.sandbox.fcm.errors import Violation
from tocsin.sandbox.phones import TargetKind

_DURATION = re.compile(r"-?\d+(\.\d{1,9})?s")


class Scalar(msgspec.Struct, frozen=True):
    """A value of one JSON type."""

    name: str
    types: tuple[type, ...]

    def fits(self, value: Any) -> bool:
        """Tell whether a value has the type."""
        # bool is an int to Python but not to JSON.
        return type(value) in self.types

    def violations(self, value: Any, path: str) -> Iterator[Violation]:
        """Say what does not fit."""
        if not self.fits(value):
            yield _invalid(path, self.name, value)


class Choice(msgspec.Struct, frozen=True):
    """One of some names."""

    name: str
    values: frozenset[str]

    def fits(self, value: Any) -> bool:
        """Tell whether a value is one of the names."""
        return isinstance(value, str) and value.upper() in self.values

    def violations(self, value: Any, path: str) -> Iterator[Violation]:
        """Say what does not fit."""
        if not self.fits(value):
            yield _invalid(path, self.name, value)


class Duration(msgspec.Struct, frozen=True):
    """Seconds, written like `3.5s`."""

    def fits(self, value: Any) -> bool:
        """Tell whether a value is written so."""
        return isinstance(value, str) and _DURATION.fullmatch(value) is not None

    def violations(self, value: Any, path: str) -> Iterator[Violation]:
        """Say what does not fit."""
        if not self.fits(value):
            field = path.rpartition(".")[2]
            yield Violation(
                path,
                f"Invalid value at '{path}' (type.googleapis.com/google.protobuf.Duration), "
                f"Field '{field}', Illegal duration format; duration must end with 's'",
            )


class AnyObject(msgspec.Struct, frozen=True):
    """A JSON object that the gateway does not look into."""

    def fits(self, value: Any) -> bool:
        """Tell whether a value is an object."""
        return isinstance(value, dict)

    def violations(self, value: Any, path: str) -> Iterator[Violation]:
        """Say what does not fit."""
        if not self.fits(value):
            yield _invalid(path, "type.googleapis.com/google.protobuf.Struct", value)


class StringMap(msgspec.Struct, frozen=True):
    """A JSON object whose values are strings."""

    def fits(self, value: Any) -> bool:
        """Tell whether a value is such an object."""
        return isinstance(value, dict) and all(type(item) is str for item in value.values())

    def violations(self, value: Any, path: str) -> Iterator[Violation]:
        """Say what does not fit."""
        if not isinstance(value, dict):
            yield _invalid(path, "Map", value)
            return
        for index, item in enumerate(value.values()):
            if not isinstance(item, str):
                yield _invalid(f"{path}[{index}].value", "TYPE_STRING", item)


class Repeated(msgspec.Struct, frozen=True):
    """A JSON array of one kind."""

    of: "Kind"

    def fits(self, value: Any) -> bool:
        """Tell whether a value is an array and every item fits."""
        return isinstance(value, list) and all(map(self.of.fits, value))

    def violations(self, value: Any, path: str) -> Iterator[Violation]:
        """Say what does not fit."""
        if not isinstance(value, list):
            yield _invalid(path, "repeated", value)
            return
        for index, item in enumerate(value):
            yield from self.of.violations(item, f"{path}[{index}]")


class Fields(msgspec.Struct, frozen=True):
    """A nested message, with its fields under both of their names."""

    by_name: Mapping[str, "Kind"]

    def fits(self, value: Any) -> bool:
        """Tell whether every field of a value is known and fits."""
        if not isinstance(value, dict):
            return False
        for name, content in value.items():
            kind = self.by_name.get(name)
            if kind is None or not (content is None or kind.fits(content)):
                return False
        return True

    def violations(self, value: Any, path: str) -> Iterator[Violation]:
        """Say what does not fit."""
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
REQUEST = _fields(message=_MESSAGE, validate_only=_BOOL)


def request_violations(request: dict[str, Any]) -> list[Violation]:
    """Name everything in a request that does not fit the schema."""
    # Most requests fit, and telling so is several times cheaper than naming what does not.
    misfits = [] if REQUEST.fits(request) else [*REQUEST.violations(request, "")]
    return [*misfits, *_second_targets(request)]


def _second_targets(request: dict[str, Any]) -> Iterator[Violation]:
    message = request.get("message")
    if not isinstance(message, dict):
        return
    named = [name for name in TARGETS if name in message and message[name] is not None]
    for name in named[1:]:
        text = f"oneof field 'target' is already set. Cannot set '{name}'"
        yield Violation("message", f"Invalid value at 'message' (oneof), {text}")
