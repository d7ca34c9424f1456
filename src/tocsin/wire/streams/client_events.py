"""The entries of the stream of client events, which a gateway passes on to the sessions of a person."""

from typing import Annotated

import msgspec
from msgspec import Meta

from tocsin.domain.intent import TraceText, TypeName, UserId
from tocsin.wire.streams.intents import LARGEST_ENTRY

DEFAULT_STREAM = "gateway:client-events"
JSON_CONTENT = "application/json"


class ClientEventEntry(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of an entry: texts, but for the payload. Fields besides these are ignored."""

    user_id: Annotated[UserId, Meta(description="The person whose sessions get the event.")]
    event_type: Annotated[TypeName, Meta(description="The type of the notification.")]
    event_id: Annotated[
        str,
        Meta(
            min_length=1,
            description="`<notification_id>/<route_id>`; a repeat of the same event has the same one.",
        ),
    ]
    payload_bytes: Annotated[
        bytes, Meta(description="The FlatBuffers table of the type, or what `content_type` says.")
    ]
    content_type: Annotated[
        str,
        Meta(
            description=f"`{JSON_CONTENT}`: the payload is a JSON object, and clients get it as one. "
            "With any other, or without it, they get the bytes as base64."
        ),
    ] = ""
    request_id: Annotated[TraceText, Meta(description="That of the intent, if it has one.")] = ""
    trace_id: Annotated[TraceText, Meta(description="That of the intent, if it has one.")] = ""
    device_session_id: Annotated[
        str, Meta(description="Restricts the event to one session; Tocsin leaves it out.")
    ] = ""


REQUIRED = tuple(field.name for field in msgspec.structs.fields(ClientEventEntry) if field.required)
OPTIONAL = tuple(field.name for field in msgspec.structs.fields(ClientEventEntry) if not field.required)


def encode_client_event(
    *,
    user_id: str,
    event_type: str,
    event_id: str,
    payload: bytes,
    request_id: str = "",
    trace_id: str = "",
    device_session_id: str = "",
) -> dict[bytes, bytes]:
    """Build the fields of an entry whose payload is a JSON object, for `XADD`.

    Raise msgspec.ValidationError if a text is not allowed, if the payload is not a JSON object, or if the
    entry is larger than a gateway reads.
    """
    fields: dict[str, str | bytes] = {
        "user_id": user_id,
        "event_type": event_type,
        "event_id": event_id,
        "payload_bytes": compact_object(payload),
        "content_type": JSON_CONTENT,
        "request_id": request_id,
        "trace_id": trace_id,
        "device_session_id": device_session_id,
    }
    msgspec.convert(fields, ClientEventEntry)
    entry = {
        name.encode(): value.encode() if isinstance(value, str) else value
        for name, value in fields.items()
        if value
    }
    size = sum(len(name) + len(value) for name, value in entry.items())
    if size > LARGEST_ENTRY:
        raise msgspec.ValidationError(f"The entry has {size:,} bytes; at most {LARGEST_ENTRY:,} are taken")
    return entry


def compact_object(payload: bytes) -> bytes:
    """Return a JSON object in one line, with its values as they are.

    Raise msgspec.ValidationError if it is not one.
    """
    try:
        payload.decode()
        compact = msgspec.json.format(payload, indent=-1)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        compact = b""
    if not compact.startswith(b"{"):
        raise msgspec.ValidationError("The payload is not a JSON object in UTF-8 - at `$.payload_bytes`")
    return compact
