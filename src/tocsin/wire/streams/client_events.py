"""The entries of the stream of client events, which a gateway passes on to the sessions of a person."""

from typing import Annotated

import msgspec
from msgspec import Meta

from tocsin.domain.intent import TraceText, TypeName, UserId

DEFAULT_STREAM = "gateway:client-events"


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
        bytes, Meta(description="The FlatBuffers table of the type, which the type alone decides.")
    ]
    request_id: Annotated[TraceText, Meta(description="That of the intent, if it has one.")] = ""
    trace_id: Annotated[TraceText, Meta(description="That of the intent, if it has one.")] = ""
    device_session_id: Annotated[
        str, Meta(description="Restricts the event to one session; Tocsin leaves it out.")
    ] = ""


REQUIRED = tuple(field.name for field in msgspec.structs.fields(ClientEventEntry) if field.required)
OPTIONAL = tuple(field.name for field in msgspec.structs.fields(ClientEventEntry) if not field.required)
