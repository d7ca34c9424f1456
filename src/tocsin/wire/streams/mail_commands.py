"""The entries of the stream of mail commands, which a mailer turns into mails."""

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta

from tocsin.domain.faults import Fault
from tocsin.domain.intent import EmailAddress, TraceText, TypeName, locale_faults
from tocsin.wire.faults import validation_fault
from tocsin.wire.streams.intents import EntryFaultsError, Fields, producer_faults, read_moment, read_object

DEFAULT_STREAM = "mail:delivery_commands"
TEMPLATE = "template"
UNSUPPORTED = "unsupported"

T = TypeVar("T", bound=msgspec.Struct)
_Id = Annotated[str, Meta(min_length=1, max_length=500, pattern=r"^[^\x00-\x1f\x7f]+\Z")]
_NONE = Annotated[tuple[str, ...], Meta(max_length=0)] | None

_UNSUPPORTED = {
    "payload_mode": "must be template: a mail is rendered from the catalog",
    "to": "must have one address: a mail has one recipient",
    "cc": "must be empty: a mail has one recipient",
    "bcc": "must be empty: a mail has one recipient",
    "reply_to": "must be empty: it is set for all mail, smtp.reply_to",
    "attachments": "must be empty: a mail has none",
}
"""The fields of which only some values are supported, and why."""


class MailCommandEntry(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of an entry, each a text. Fields besides these are ignored."""

    delivery_id: Annotated[_Id, Meta(description="`<notification_id>/<route_id>`.")]
    source: Annotated[str, Meta(min_length=1, max_length=100, description="The service that commands.")]
    payload_mode: Annotated[Literal["template"], Meta(description="The mailer has the texts.")]
    idempotency_key: Annotated[_Id, Meta(description="`<source>:<delivery_id>`; a repeat is the same mail.")]
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
    locale: Annotated[
        str | None, Meta(description="The language of the texts. Left out: the type's default.")
    ] = None
    variables: Annotated[Mapping[str, Any], Meta(description="The payload of the intent.")]


class MailCommand(msgspec.Struct, frozen=True, kw_only=True):
    """A command to send one mail."""

    entry: MailCommandEntry
    requested_at: datetime
    payload: MailPayload


def read_command(fields: Fields) -> MailCommand:
    """Build the command of an entry, or raise every fault of its fields; an empty one counts as missing."""
    given = {name: value for name, value in fields.items() if value}
    built: dict[str, Any] = {}
    faults: list[Fault] = []
    try:
        built["entry"] = _converted(MailCommandEntry, given)
    except EntryFaultsError as error:
        faults += error.faults
    wrong = {fault.field for fault in faults}
    if "source" not in wrong:
        faults += producer_faults("source", given)
    # Of another mode the payload is another one, too: what it lacks says nothing.
    is_template = given.get("payload_mode", TEMPLATE) == TEMPLATE
    parts: list[tuple[str, str, Callable[[str, Fields], Any]]] = [
        ("requested_at", "requested_at_ms", read_moment),
        ("payload", "payload_json", _payload if is_template else read_object),
    ]
    for part, name, read in parts:
        try:
            built[part] = None if name in wrong else read(name, given)
        except EntryFaultsError as error:
            faults += error.faults
    if faults:
        raise EntryFaultsError(*faults)
    return MailCommand(**built)


def _payload(name: str, fields: Fields) -> MailPayload:
    given = read_object(name, fields)
    locale = given.get("locale")
    faults = locale_faults(locale) if locale and isinstance(locale, str) else []
    try:
        payload = _converted(MailPayload, given)
    except EntryFaultsError as error:
        faults += error.faults
    if faults:
        below = [msgspec.structs.replace(fault, field=f"{name}.{fault.field}") for fault in faults]
        raise EntryFaultsError(*below)
    return payload


def _converted(type_: type[T], given: Mapping[str, Any]) -> T:
    """Convert an object, or raise the faults of all its fields."""
    try:
        return msgspec.convert(given, type_)
    except msgspec.ValidationError:
        raise EntryFaultsError(*_faults(type_, given)) from None


def _faults(type_: type[msgspec.Struct], given: Mapping[str, Any]) -> Iterator[Fault]:
    for field in msgspec.structs.fields(type_):
        name, value = field.name, given.get(field.name)
        if value is None:
            if field.required:
                yield Fault(field=name, code="missing", message="is missing")
            continue
        try:
            msgspec.convert(value, field.type)
        except msgspec.ValidationError as error:
            # A list with one entry that is no address, or with none, is no question of support.
            is_short = name == "to" and not (isinstance(value, list) and len(value) > 1)
            if name in _UNSUPPORTED and not is_short:
                yield Fault(field=name, code=UNSUPPORTED, message=_UNSUPPORTED[name])
                continue
            fault = validation_fault(error, "")
            message = "has characters that are not allowed" if "regex" in fault.message else fault.message
            yield Fault(field=f"{name}{fault.field}", code="invalid", message=message)
