"""The entries of the stream of mail commands, which a mailer turns into mails."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from tocsin.domain.intent import EmailAddress, TraceText, TypeName

DEFAULT_STREAM = "mail:delivery_commands"

_NONE = Annotated[tuple[str, ...], Meta(max_length=0)]


class MailCommandEntry(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of an entry, each a text. Fields besides these are ignored."""

    delivery_id: Annotated[str, Meta(min_length=1, description="`<notification_id>/<route_id>`.")]
    source: Annotated[str, Meta(min_length=1, max_length=100, description="The service that commands.")]
    payload_mode: Annotated[Literal["template"], Meta(description="The mailer has the texts.")]
    idempotency_key: Annotated[
        str, Meta(min_length=1, description="`<source>:<delivery_id>`; a repeat is the same mail.")
    ]
    requested_at_ms: Annotated[
        str,
        Meta(
            pattern=r"^[0-9]{1,15}\Z",
            description="When the notification was accepted: milliseconds since 1970, in digits.",
        ),
    ]
    request_id: Annotated[TraceText, Meta(description="That of the intent, if it has one.")] = ""
    trace_id: Annotated[TraceText, Meta(description="That of the intent, if it has one.")] = ""
    payload_json: Annotated[str, Meta(min_length=1, description="A MailPayload.")]


class MailPayload(msgspec.Struct, frozen=True, kw_only=True):
    """One address, the template by its name, and the variables for it."""

    to: Annotated[tuple[EmailAddress, ...], Meta(min_length=1, max_length=1)]
    cc: _NONE = ()
    bcc: _NONE = ()
    reply_to: _NONE = ()
    attachments: _NONE = ()
    template_id: Annotated[TypeName, Meta(description="The type of the notification.")]
    locale: Annotated[str, Meta(min_length=1, description="The language of the texts.")]
    variables: Annotated[Mapping[str, Any], Meta(description="The payload of the intent.")]
