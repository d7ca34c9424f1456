"""Mail commands, decoded as intents for one address."""

import hashlib
from collections.abc import Mapping, Sequence

import msgspec

from tocsin.catalog.catalog import Catalog
from tocsin.domain.faults import Fault
from tocsin.domain.intent import LONGEST_KEY, Audience, Intent
from tocsin.engine.accept.answers import INVALID, Unreadable
from tocsin.engine.accept.write import Sourced
from tocsin.ingress.redis_streams.envelopes import as_text, shown_producer
from tocsin.ingress.source import EntryDecoder
from tocsin.store.refused import LONGEST_CONTENT
from tocsin.wire.mail_commands import UNSUPPORTED, MailCommand, read_command
from tocsin.wire.stream_entries import EntryFaultsError, Fields

SOURCE = "mail_commands"
UNKNOWN_TYPE = "unknown_type"


class _Addressed(msgspec.Struct, frozen=True):
    to: list[str] = []


_addressed = msgspec.json.Decoder(_Addressed)


def mail_commands(catalog: Catalog) -> EntryDecoder:
    """Build the decoder of mail commands whose templates are types of a catalog."""

    def decode(entry_id: str, raw: Mapping[bytes, bytes], unknown_producer: str) -> Sourced:
        fields, faults = as_text(raw)
        # The audience is in the form of any other intent, so that whoever erases a person finds them in it.
        shown = {"stream_entry_id": entry_id, "audience": {"emails": _to(fields)}, "fields": fields}
        content = msgspec.json.encode(shown).decode()
        read = _refused(fields, content, faults) if faults else _read(fields, content, catalog)
        return Sourced(
            producer=shown_producer(fields.get("source") or unknown_producer),
            intent=_intent(read) if isinstance(read, MailCommand) else read,
            external_id=entry_id,
            reference=read.entry.delivery_id if isinstance(read, MailCommand) else None,
            content=content,
        )

    return EntryDecoder(SOURCE, decode)


def _read(fields: Fields, content: str, catalog: Catalog) -> MailCommand | Unreadable:
    try:
        command = read_command(fields)
    except EntryFaultsError as error:
        return _refused(fields, content, error.faults)
    template_id = command.payload.template_id
    if catalog.find(template_id) is not None:
        return command
    message = f"{template_id!r} is no type of the catalog that has texts for mail"
    fault = Fault(field="payload_json.template_id", code=UNKNOWN_TYPE, message=message)
    return _refused(fields, content, [fault], template_id)


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


def _refused(
    fields: Fields, content: str, faults: Sequence[Fault], template_id: str | None = None
) -> Unreadable:
    codes = {fault.code for fault in faults}
    return Unreadable(
        code=codes.pop() if codes in ({UNSUPPORTED}, {UNKNOWN_TYPE}) else INVALID,
        faults=faults,
        content=content[:LONGEST_CONTENT],
        type=template_id,
        idempotency_key=fields.get("idempotency_key"),
    )


def _to(fields: Fields) -> list[str]:
    try:
        return _addressed.decode(fields.get("payload_json", "{}")).to
    except (msgspec.MsgspecError, RecursionError):
        return []
