"""The messages of a queue, decoded as intents."""

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeAlias, assert_never

import msgspec

from tocsin.catalog.catalog import Catalog
from tocsin.domain.faults import Fault
from tocsin.domain.intent import Intent
from tocsin.engine.accept.answers import Unreadable
from tocsin.engine.accept.organisations import bind
from tocsin.engine.accept.write import Sourced
from tocsin.ingress.envelopes import declared_by, decoding_fault
from tocsin.ingress.sqs.queue import Received
from tocsin.ingress.sqs.settings import QueueSettings
from tocsin.store.sources.refused import LONGEST_CONTENT
from tocsin.wire.fisa.envelope import FisaEnvelope, decode_envelope, to_intent
from tocsin.wire.fisa.ids import message_key
from tocsin.wire.sns_message import SnsMessage, unwrap

LARGEST_MESSAGE = 1_048_576
"""The most characters of a message; SQS takes no more bytes."""

MessageDecoder: TypeAlias = Callable[[Received], Sourced]

_MESSAGE_ID = re.compile(r"[!-~]{1,100}")

_fields = msgspec.json.Decoder(dict[str, Any])


def message_decoder(
    name: str, settings: QueueSettings, catalog: Catalog, *, org_scoping: bool = False
) -> MessageDecoder:
    """Return a function that decodes messages of a queue and never raises.

    With `org_scoping`, an envelope is for people of its organisation. A queue that is bound to one refuses
    those of another.
    """
    scoped = org_scoping or settings.org_id is not None

    def read(text: str, external_id: str) -> Intent:
        match settings.envelope:
            case "intent":
                return _read_intent(text, external_id)
            case "fisa":
                envelope = decode_envelope(text)
                return to_intent(
                    envelope, settings.types, declared_by(catalog), key=key_of(envelope), scoped=scoped
                )
            case _:
                assert_never(settings.envelope)

    def decode(message: Received) -> Sourced:
        published = unwrap(message.body)
        external_id = external_id_of(message, published)
        text = published.message
        written = partial(_written, external_id, text)
        intent = _read(read, text, external_id, written)
        return Sourced(
            producer=f"sqs:{name}",
            intent=intent if settings.org_id is None else bind(intent, settings.org_id),
            external_id=external_id,
            written=written,
            message_id=message.message_id,
        )

    return decode


def external_id_of(message: Received, published: SnsMessage) -> str:
    """Return the id that SNS has for a message, or SQS if it did not come by a topic."""
    # Whoever may send to the queue can write a wrapper, with anything in it.
    if published.message_id and _MESSAGE_ID.fullmatch(published.message_id):
        return published.message_id
    return message.message_id


def key_of(envelope: FisaEnvelope) -> str:
    """Return the idempotency key of an envelope: its event, and its recipient if it has one alone.

    A topic has a message for each recipient of an event, and these are different intents.
    """
    users = envelope.users
    return message_key(envelope.event_id, users[0]) if len(users) == 1 else envelope.event_id


def _read(
    read: Callable[[str, str], Intent], text: str, external_id: str, written: Callable[[], str]
) -> Intent | Unreadable:
    if len(text) > LARGEST_MESSAGE:
        message = f"has {len(text):,} characters; at most {LARGEST_MESSAGE:,} are taken"
        return _unreadable({}, [Fault(field="$", code="too_large", message=message)], written)
    try:
        return read(text, external_id)
    except Exception as error:  # noqa: BLE001 - a message can hold anything
        return _unreadable(_fields_of(text), [decoding_fault(error)], written)


def _read_intent(text: str, external_id: str) -> Intent:
    """Decode an intent; its idempotency key is the id of the message unless it has its own."""
    fields = _fields.decode(text)
    fields.setdefault("idempotency_key", external_id)
    return msgspec.convert(fields, Intent)


def _fields_of(text: str) -> Mapping[str, Any]:
    try:
        return _fields.decode(text)
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return {}


def _written(external_id: str, text: str) -> str:
    # The audience comes in the form of any other intent, so that whoever erases a person finds them in it.
    fields = _fields_of(text)
    recipients = fields.get("recipients")
    audience = fields.get("audience") or ({"users": recipients} if recipients else None)
    shown = {"message_id": external_id, "audience": audience, "message": text}
    try:
        return msgspec.json.encode(shown).decode()
    except (UnicodeError, RecursionError):
        return text.encode(errors="replace").decode()


def _unreadable(fields: Mapping[str, Any], faults: list[Fault], written: Callable[[], str]) -> Unreadable:
    type_ = fields.get("type") or fields.get("event_type")
    key = fields.get("idempotency_key") or fields.get("event_id")
    return Unreadable(
        faults=faults,
        content=written()[:LONGEST_CONTENT],
        type=type_ if isinstance(type_, str) else None,
        idempotency_key=key if isinstance(key, str) else None,
    )
