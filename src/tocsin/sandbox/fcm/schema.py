"""The schema of `messages:send` and the gateway's check of a request against it.

A request is written in the JSON form of protocol buffers: a field may be named `collapse_key` or
`collapseKey`, null means absent, and every violation is reported with its path.
"""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

import msgspec

from tocsin.sandbox.fcm.errors import Violation
from tocsin.sandbox.phones import TargetKind


class Value(msgspec.Struct, frozen=True):
    """A single value of a msgspec type; `problem` words a misfit, with `{value}` and `{field}` filled in."""

    type_name: str
    type_: Any
    problem: str = "{value}"


class Items(msgspec.Struct, frozen=True):
    """A JSON array or object whose items are all of one type."""

    type_name: str
    type_: Any
    of: Value
    container: type[Any]
    item_path: str


class Fields(msgspec.Struct, frozen=True):
    """A nested message, with its fields under both of their names."""

    type_: Any
    by_name: Mapping[str, "Schema"]
    type_name: str = "Message"
    container: type[Any] = dict


Schema = Value | Items | Fields


def _fields(**schemas: Schema) -> Fields:
    optional = [(name, schema.type_ | None, None) for name, schema in schemas.items()]
    type_ = msgspec.defstruct("Message", optional, forbid_unknown_fields=True)
    return Fields(type_, {**schemas, **{_camel(name): schema for name, schema in schemas.items()}})


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


def _repeated(of: Value) -> Items:
    return Items("repeated", list[of.type_], of, list, "{path}[{index}]")  # type: ignore[name-defined]


def _one_of(name: str, *names: str) -> Value:
    spellings = (*names, *(each.lower() for each in names))
    return Value(f"type.googleapis.com/google.firebase.fcm.v1.{name}", Literal[spellings])


_STRING = Value("TYPE_STRING", str)
_STRING_MAP = Items("Map", dict[str, str], _STRING, dict, "{path}[{index}].value")
_BOOL = Value("TYPE_BOOL", bool)
_INT32 = Value("TYPE_INT32", int)
_FLOAT = Value("TYPE_FLOAT", float)
_TIMESTAMP = Value("type.googleapis.com/google.protobuf.Timestamp", str)
_OBJECT = Value("type.googleapis.com/google.protobuf.Struct", dict[str, Any])
_SECONDS = Value(
    "type.googleapis.com/google.protobuf.Duration",
    Annotated[str, msgspec.Meta(pattern=r"^-?\d+(\.\d{1,9})?s\Z")],
    "Field '{field}', Illegal duration format; duration must end with 's'",
)

_ANDROID_NOTIFICATION = _fields(
    title=_STRING,
    body=_STRING,
    icon=_STRING,
    color=_STRING,
    sound=_STRING,
    tag=_STRING,
    click_action=_STRING,
    body_loc_key=_STRING,
    body_loc_args=_repeated(_STRING),
    title_loc_key=_STRING,
    title_loc_args=_repeated(_STRING),
    channel_id=_STRING,
    ticker=_STRING,
    sticky=_BOOL,
    event_time=_TIMESTAMP,
    local_only=_BOOL,
    notification_priority=_one_of(
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
    vibrate_timings=_repeated(_SECONDS),
    visibility=_one_of(
        "AndroidNotification.Visibility", "VISIBILITY_UNSPECIFIED", "PRIVATE", "PUBLIC", "SECRET"
    ),
    notification_count=_INT32,
    light_settings=_fields(
        color=_fields(red=_FLOAT, green=_FLOAT, blue=_FLOAT, alpha=_FLOAT),
        light_on_duration=_SECONDS,
        light_off_duration=_SECONDS,
    ),
    image=_STRING,
    proxy=_one_of("AndroidNotification.Proxy", "PROXY_UNSPECIFIED", "ALLOW", "DENY", "IF_PRIORITY_LOWERED"),
)

_MESSAGE = _fields(
    name=_STRING,
    data=_STRING_MAP,
    notification=_fields(title=_STRING, body=_STRING, image=_STRING),
    android=_fields(
        collapse_key=_STRING,
        priority=_one_of("AndroidMessagePriority", "NORMAL", "HIGH"),
        ttl=_SECONDS,
        restricted_package_name=_STRING,
        data=_STRING_MAP,
        notification=_ANDROID_NOTIFICATION,
        fcm_options=_fields(analytics_label=_STRING),
        direct_boot_ok=_BOOL,
        bandwidth_constrained_ok=_BOOL,
        restricted_satellite_ok=_BOOL,
    ),
    webpush=_fields(
        headers=_STRING_MAP,
        data=_STRING_MAP,
        notification=_OBJECT,
        fcm_options=_fields(link=_STRING, analytics_label=_STRING),
    ),
    apns=_fields(
        headers=_STRING_MAP,
        payload=_OBJECT,
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
    """List everything in a request that does not fit the schema."""
    return [*_violations(_REQUEST, request, ""), *_second_targets(request)]


def _violations(schema: Schema, value: Any, path: str) -> Iterator[Violation]:
    try:
        msgspec.convert(value, schema.type_)
    except msgspec.ValidationError:
        if isinstance(schema, Value) or not isinstance(value, schema.container):
            problem = schema.problem if isinstance(schema, Value) else "{value}"
            yield _violation(path, schema.type_name, value, problem)
        elif isinstance(schema, Items):
            for index, item in enumerate(value.values() if isinstance(value, dict) else value):
                yield from _violations(schema.of, item, schema.item_path.format(path=path, index=index))
        else:
            yield from _field_violations(schema.by_name, value, path)


def _field_violations(
    schemas: Mapping[str, Schema], fields: dict[str, Any], path: str
) -> Iterator[Violation]:
    for name, value in fields.items():
        if name not in schemas:
            place = f" at '{path}'" if path else ""
            text = f'Invalid JSON payload received. Unknown name "{name}"{place}: Cannot find field.'
            yield Violation(path, text)
        elif value is not None:
            yield from _violations(schemas[name], value, f"{path}.{name}" if path else name)


def _violation(path: str, type_name: str, value: Any, problem: str) -> Violation:
    shown = problem.format(value=msgspec.json.encode(value).decode(), field=path.rpartition(".")[2])
    return Violation(path, f"Invalid value at '{path}' ({type_name}), {shown}")


def _second_targets(request: dict[str, Any]) -> Iterator[Violation]:
    message = request.get("message")
    if not isinstance(message, dict):
        return
    named = [name for name in TARGETS if message.get(name) is not None]
    for name in named[1:]:
        text = f"oneof field 'target' is already set. Cannot set '{name}'"
        yield Violation("message", f"Invalid value at 'message' (oneof), {text}")
