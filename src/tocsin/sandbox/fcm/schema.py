"""The schema of `messages:send` and the gateway's check of a request against it.

A request is written in the JSON form of protocol buffers: a field may be named `collapse_key` or
`collapseKey`, null means absent, and every violation is reported with its path.
"""

from collections.abc import Iterator, Mapping
from operator import attrgetter
from typing import Annotated, Any, Literal

import msgspec

from tocsin.sandbox.fcm import errors
from tocsin.sandbox.fcm.errors import Violation
from tocsin.sandbox.phones import TargetKind
from tocsin.sandbox.responses import RefusedRequestError


class MessageSchema(msgspec.Struct, frozen=True):
    """One value of a msgspec type; `problem` words a misfit, with `{value}` and `{field}` filled in.

    A `container` is a JSON array or object whose `items` are all of one type, or a nested message, with its
    `fields` under both of their names; `names` are the first of them.
    """

    type_name: str
    type_: Any
    problem: str = "{value}"
    container: type[Any] | None = None
    items: "MessageSchema | None" = None
    fields: Mapping[str, "MessageSchema"] = {}
    names: Mapping[str, str] = {}


def _fields(strings: str = "", bools: str = "", /, **others: MessageSchema) -> MessageSchema:
    """Build a message from the names of its string fields, those of its bool fields, and its other fields."""
    schemas = dict.fromkeys(strings.split(), _STRING) | dict.fromkeys(bools.split(), _BOOL) | others
    optional = [(name, schema.type_ | None, None) for name, schema in schemas.items()]
    # What was read from JSON holds no cycles, for which the garbage collector would have to track it.
    type_ = msgspec.defstruct("Message", optional, forbid_unknown_fields=True, omit_defaults=True, gc=False)
    names = {spelling: name for name in schemas for spelling in (name, _camel(name))}
    both_names = {spelling: schemas[name] for spelling, name in names.items()}
    return MessageSchema("Message", type_, container=dict, fields=both_names, names=names)


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


def _repeated(of: MessageSchema) -> MessageSchema:
    return MessageSchema("repeated", list[of.type_], container=list, items=of)  # type: ignore[name-defined]


def _one_of(name: str, *names: str) -> MessageSchema:
    spellings = (*names, *(each.lower() for each in names))
    return MessageSchema(f"type.googleapis.com/google.firebase.fcm.v1.{name}", Literal[spellings])


_STRING = MessageSchema("TYPE_STRING", str)
_STRING_MAP = MessageSchema("Map", dict[str, str], container=dict, items=_STRING)
_BOOL = MessageSchema("TYPE_BOOL", bool)
_FLOAT = MessageSchema("TYPE_FLOAT", float)
_OBJECT = MessageSchema("type.googleapis.com/google.protobuf.Struct", dict[str, Any])
_SECONDS = MessageSchema(
    "type.googleapis.com/google.protobuf.Duration",
    Annotated[str, msgspec.Meta(pattern=r"^-?\d+(\.\d{1,9})?s\Z")],
    "Field '{field}', Illegal duration format; duration must end with 's'",
)

_ANDROID_NOTIFICATION = _fields(
    "title body icon color sound tag image ticker channel_id click_action body_loc_key title_loc_key",
    "sticky local_only default_sound default_vibrate_timings default_light_settings",
    body_loc_args=_repeated(_STRING),
    title_loc_args=_repeated(_STRING),
    event_time=MessageSchema("type.googleapis.com/google.protobuf.Timestamp", str),
    notification_priority=_one_of(
        "AndroidNotification.NotificationPriority",
        "PRIORITY_UNSPECIFIED",
        "PRIORITY_MIN",
        "PRIORITY_LOW",
        "PRIORITY_DEFAULT",
        "PRIORITY_HIGH",
        "PRIORITY_MAX",
    ),
    vibrate_timings=_repeated(_SECONDS),
    visibility=_one_of(
        "AndroidNotification.Visibility", "VISIBILITY_UNSPECIFIED", "PRIVATE", "PUBLIC", "SECRET"
    ),
    notification_count=MessageSchema("TYPE_INT32", int),
    light_settings=_fields(
        color=_fields(red=_FLOAT, green=_FLOAT, blue=_FLOAT, alpha=_FLOAT),
        light_on_duration=_SECONDS,
        light_off_duration=_SECONDS,
    ),
    proxy=_one_of("AndroidNotification.Proxy", "PROXY_UNSPECIFIED", "ALLOW", "DENY", "IF_PRIORITY_LOWERED"),
)

_MESSAGE = _fields(
    "name token fid topic condition",
    data=_STRING_MAP,
    notification=_fields("title body image"),
    android=_fields(
        "collapse_key restricted_package_name",
        "direct_boot_ok bandwidth_constrained_ok restricted_satellite_ok",
        priority=_one_of("AndroidMessagePriority", "NORMAL", "HIGH"),
        ttl=_SECONDS,
        data=_STRING_MAP,
        notification=_ANDROID_NOTIFICATION,
        fcm_options=_fields("analytics_label"),
    ),
    webpush=_fields(
        headers=_STRING_MAP,
        data=_STRING_MAP,
        notification=_OBJECT,
        fcm_options=_fields("link analytics_label"),
    ),
    apns=_fields(
        "live_activity_token",
        headers=_STRING_MAP,
        payload=_OBJECT,
        fcm_options=_fields("analytics_label image"),
    ),
    fcm_options=_fields("analytics_label"),
)

TARGETS: tuple[TargetKind, ...] = ("token", "fid", "topic", "condition")
_targets_of = attrgetter(*TARGETS)
_REQUEST = _fields("", "validate_only", message=_MESSAGE)


_decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(_REQUEST.type_)
_decode_any = msgspec.json.Decoder().decode


def read_request(body: bytes) -> Any:
    """Decode a request to an object with the fields of the schema, or raise RefusedRequestError.

    Most fit the schema and spell its names as they are here, which costs half as much to check.
    """
    try:
        request = _decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _read_any(body)
    if request.message is not None and _targets_of(request.message).count(None) < len(TARGETS) - 1:
        return _read_any(body)
    return request


def _read_any(body: bytes) -> Any:
    try:
        content = _decode_any(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        content = None
    if not isinstance(content, dict):
        raise RefusedRequestError(errors.unparsable(body))
    if violations := request_violations(content):
        raise RefusedRequestError(errors.malformed(violations))
    return msgspec.convert(_spelled(_REQUEST, content), _REQUEST.type_)


def request_violations(request: dict[str, Any]) -> list[Violation]:
    """List everything in a request that does not fit the schema."""
    return [*_violations(_REQUEST, request, ""), *_second_targets(request)]


def _spelled(schema: MessageSchema, value: Any) -> Any:
    """Return a value of the schema with the first of the names that each field has."""
    if isinstance(value, dict) and schema.names:
        return {schema.names[name]: _spelled(schema.fields[name], field) for name, field in value.items()}
    return value


def _violations(schema: MessageSchema, value: Any, path: str) -> Iterator[Violation]:
    try:
        msgspec.convert(value, schema.type_)
    except msgspec.ValidationError:
        if schema.container is None or not isinstance(value, schema.container):
            shown = schema.problem.format(
                value=msgspec.json.encode(value).decode(), field=path.rpartition(".")[2]
            )
            yield Violation(path, f"Invalid value at '{path}' ({schema.type_name}), {shown}")
        elif schema.items:
            is_map = isinstance(value, dict)
            for index, item in enumerate(value.values() if is_map else value):
                yield from _violations(schema.items, item, f"{path}[{index}]{'.value' if is_map else ''}")
        else:
            yield from _field_violations(schema.fields, value, path)


def _field_violations(
    schemas: Mapping[str, MessageSchema], fields: dict[str, Any], path: str
) -> Iterator[Violation]:
    for name, value in fields.items():
        if name not in schemas:
            place = f" at '{path}'" if path else ""
            text = f'Invalid JSON payload received. Unknown name "{name}"{place}: Cannot find field.'
            yield Violation(path, text)
        elif value is not None:
            yield from _violations(schemas[name], value, f"{path}.{name}" if path else name)


def _second_targets(request: dict[str, Any]) -> list[Violation]:
    message = request.get("message")
    if not isinstance(message, dict):
        return []
    named = [name for name in TARGETS if message.get(name) is not None]
    return [
        Violation(
            "message",
            f"Invalid value at 'message' (oneof), oneof field 'target' is already set. Cannot set '{name}'",
        )
        for name in named[1:]
    ]
