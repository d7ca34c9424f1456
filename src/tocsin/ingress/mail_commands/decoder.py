"""Mail commands, decoded as intents for one address."""

import hashlib
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from tocsin.domain.faults import Fault
from tocsin.domain.intent import LONGEST_KEY, Audience, Intent
from tocsin.engine.accept.answers import INVALID, Unreadable
from tocsin.engine.accept.write import Sourced
from tocsin.ingress.redis_streams.envelopes import as_text, shown_producer
from tocsin.ingress.source import EntryDecoder
from tocsin.store.sources.refused import LONGEST_CONTENT
from tocsin.wire.streams.intents import EntryFaultsError, Fields
from tocsin.wire.streams.mail_commands import UNSUPPORTED, MailCommand, read_command


class _Glimpse(msgspec.Struct, frozen=True):
    """What a record of a refused command shows of its payload, whatever else is wrong with it."""

    to: Any = None
    template_id: Any = None


_glimpse = msgspec.json.Decoder(_Glimpse)


def read_entry(entry_id: str, raw: Mapping[bytes, bytes], unknown_producer: str) -> Sourced:
    """Decode an entry; one that is no valid command is `Unreadable`, and never raises."""
    fields, faults = as_text(raw)
    written = partial(_written, entry_id, fields)
    read = faults or _read(fields)
    return Sourced(
        producer=shown_producer(fields.get("source") or unknown_producer),
        intent=_intent(read) if isinstance(read, MailCommand) else _refused(fields, written(), read),
        external_id=entry_id,
        reference=read.entry.delivery_id if isinstance(read, MailCommand) else None,
        written=written,
    )


MAIL_COMMANDS = EntryDecoder("mail_commands", read_entry)


def _written(entry_id: str, fields: Fields) -> str:
    to = _seen(fields).to
    addresses = [each for each in to if isinstance(each, str)] if isinstance(to, list) else []
    # The audience is in the form of any other intent, so that whoever erases a person finds them in it.
    shown = {"stream_entry_id": entry_id, "audience": {"emails": addresses}, "fields": fields}
    return msgspec.json.encode(shown).decode()


def _read(fields: Fields) -> MailCommand | Sequence[Fault]:
    try:
        return read_command(fields)
    except EntryFaultsError as error:
        return error.faults


def _intent(command: MailCommand) -> Intent:
    entry, mail = command.entry, command.payload
    return Intent(
        type=mail.template_id,
        audience=Audience(emails=list(mail.to)),
        payload=dict(mail.variables),
        idempotency_key=_key(entry.idempotency_key),
        request_id=entry.request_id or None,
        trace_id=entry.trace_id or None,
        occurred_at=command.requested_at,
        locale=mail.locale or None,
    )


def _key(text: str) -> str:
    """Return a key, shortened by a hash if it is too long to be one; it may hold a whole address."""
    if len(text) <= LONGEST_KEY:
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()
    return f"{text[: LONGEST_KEY - len(digest) - 1]}~{digest}"


def _refused(fields: Fields, content: str, faults: Sequence[Fault]) -> Unreadable:
    template_id = _seen(fields).template_id
    return Unreadable(
        code=UNSUPPORTED if all(fault.code == UNSUPPORTED for fault in faults) else INVALID,
        faults=faults,
        content=content[:LONGEST_CONTENT],
        type=template_id if isinstance(template_id, str) else None,
        idempotency_key=fields.get("idempotency_key"),
    )


def _seen(fields: Fields) -> _Glimpse:
    try:
        return _glimpse.decode(fields.get("payload_json", "{}"))
    except (msgspec.MsgspecError, RecursionError):
        return _Glimpse()
