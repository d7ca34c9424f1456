"""The documents of the three streams: intents, client events and mail commands."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from tocsin.catalog.examples import example_payloads
from tocsin.domain.catalog import NotificationType
from tocsin.wire.streams import client_events, intents, mail_commands
from tocsin.wire.streams.client_events import JSON_CONTENT, ClientEventEntry
from tocsin.wire.streams.intents import IntentEntry, write_fields
from tocsin.wire.streams.mail_commands import MailCommandEntry, MailPayload
from tools.docs.asyncapi.document import (
    Schema,
    Stream,
    galaxy_catalog,
    json_text,
    message,
    one_of,
    reference,
    render,
    struct_schemas,
)

INTENTS = Stream(
    name="intents",
    address=intents.DEFAULT_STREAM,
    title="Intents of the galaxy notification service",
    description="What producers append: a message for each type of `examples/galaxy/catalog`. An entry is "
    "accepted or refused; what was refused, and why, is kept. Append with a plain `XADD`.",
    action="receive",
    summary="Read every intent, by plain `XREAD` from the stored offset.",
)
CLIENT_EVENTS = Stream(
    name="clientEvents",
    address=client_events.DEFAULT_STREAM,
    title="Client events of the galaxy notification service",
    description="Pushes, for a gateway that has the sessions of people. The stream is trimmed by "
    "`XADD MAXLEN ~`; an event may come twice, with the same `event_id`.",
    action="send",
    summary="Append one event for each push.",
)
MAIL_COMMANDS = Stream(
    name="mailCommands",
    address=mail_commands.DEFAULT_STREAM,
    title="Mail commands of the galaxy notification service",
    description="E-mails, for a mailer that has the templates. The stream is not trimmed; a command may come "
    "twice, with the same `idempotency_key`.",
    action="send",
    summary="Append one command for each e-mail.",
)
AUDIENCE_KINDS = {"users": "user", "admins": "admin_email"}
"""The kinds of an entry's audience, by those of the catalog."""
PRODUCERS = {"geo": "geoprofile", "game": "game_master", "lobby": "game_lobby"}
FLATBUFFERS = {"contentMediaType": "application/x-flatbuffers"}
_AT = datetime(2031, 5, 17, 9, 30, tzinfo=UTC)
_ENTRY_ID = "1936863000000-0"


def intents_document() -> str:
    """Build the document of the stream that producers append to."""
    types = _types()
    schemas = struct_schemas(IntentEntry)
    user_ids = {"type": "array", "items": {"type": "string"}, "minItems": 1, "uniqueItems": True}
    entry = schemas["IntentEntry"]
    entry["properties"]["payload_json"] |= json_text({"type": "object"})
    entry["properties"]["recipient_user_ids_json"] |= json_text(user_ids)
    listed = {
        "required": ["recipient_user_ids_json"],
        "properties": {"recipient_user_ids_json": {"minLength": 1}},
    }
    entry |= {
        "if": {"properties": {"audience_kind": {"const": "user"}}},
        "then": listed,
        "else": {"not": listed},
    }
    messages = {
        name: message(
            "IntentEntry",
            name,
            f"An intent of the type {name}",
            {
                "notification_type": {"const": name},
                "audience_kind": one_of(_kinds(type_)),
                "payload_json": json_text(reference("schemas", name)),
            },
            _intent_example(type_),
        )
        for name, type_ in types.items()
    }
    return render(INTENTS, messages, schemas | _payloads(types))


def client_events_document() -> str:
    """Build the document of the stream that a gateway reads."""
    schemas = struct_schemas(ClientEventEntry)
    entry = schemas["ClientEventEntry"]
    described = entry["properties"]["payload_bytes"]
    described |= {"type": "string", "format": "binary"}
    described.pop("contentEncoding")
    entry |= {
        "if": {"required": ["content_type"], "properties": {"content_type": {"const": JSON_CONTENT}}},
        "then": {"properties": {"payload_bytes": json_text({"type": "object"})}},
        "else": {"properties": {"payload_bytes": FLATBUFFERS}},
    }
    messages: dict[str, Schema] = {}
    for name, type_ in _types().items():
        if type_.event is None:
            continue
        example = {
            "user_id": "u-ada",
            "event_type": name,
            "event_id": f"{_ENTRY_ID}/push:user:u-ada",
            "payload_bytes": f"(the table {type_.event.table})",
        }
        fields: Schema = {"event_type": {"const": name}}
        messages[name] = message(
            "ClientEventEntry", name, f"An event of the type {name}", fields, example
        ) | {
            "x-flatbuffers": {
                "schema": "examples/galaxy/notification.fbs",
                "table": type_.event.table,
                "fields": list(type_.event.fields),
            }
        }
    return render(CLIENT_EVENTS, messages, schemas)


def mail_commands_document() -> str:
    """Build the document of the stream that a mailer reads."""
    types = {
        name: type_
        for name, type_ in _types().items()
        if type_.audiences is None or any("email" in channels for channels in type_.audiences.values())
    }
    schemas = struct_schemas(MailCommandEntry, MailPayload)
    messages: dict[str, Schema] = {}
    for name, type_ in types.items():
        narrowed = {"template_id": {"const": name}, "variables": reference("schemas", name)}
        payload = {"allOf": [reference("schemas", "MailPayload"), {"type": "object", "properties": narrowed}]}
        messages[name] = message(
            "MailCommandEntry",
            name,
            f"A mail of the type {name}",
            {"payload_json": json_text(payload)},
            _mail_example(type_),
        )
    return render(MAIL_COMMANDS, messages, schemas | _payloads(types))


def _types() -> Mapping[str, NotificationType]:
    return dict(sorted(galaxy_catalog().types.items()))


def _kinds(type_: NotificationType) -> list[str]:
    return [
        kind for audience, kind in AUDIENCE_KINDS.items() if audience in (type_.audiences or AUDIENCE_KINDS)
    ]


def _payloads(types: Mapping[str, NotificationType]) -> dict[str, Schema]:
    return {name: dict(type_.payload_schema) for name, type_ in types.items()}


def _example(type_: NotificationType) -> dict[str, Any]:
    payload: dict[str, Any] = example_payloads(type_.payload_schema)[0]
    return payload


def _intent_example(type_: NotificationType) -> dict[str, str]:
    return write_fields(
        type_.name,
        producer=PRODUCERS[type_.name.partition(".")[0]],
        users=["u-ada"] if "user" in _kinds(type_) else None,
        payload=_example(type_),
        idempotency_key=f"{type_.name}/1",
        occurred_at=_AT,
        request_id="request-1",
        trace_id=None,
    )


def _mail_example(type_: NotificationType) -> dict[str, str]:
    delivery_id = f"{_ENTRY_ID}/email:user:u-ada"
    payload = MailPayload(
        to=("ada@example.org",), template_id=type_.name, locale="en", variables=_example(type_)
    )
    return {
        "delivery_id": delivery_id,
        "source": "notification",
        "payload_mode": "template",
        "idempotency_key": f"notification:{delivery_id}",
        "requested_at_ms": str(int(_AT.timestamp() * 1_000)),
        "payload_json": msgspec.json.encode(payload).decode(),
    }
