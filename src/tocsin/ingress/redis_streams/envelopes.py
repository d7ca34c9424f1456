"""The entries of a stream, decoded as intents."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import msgspec

from tocsin.domain.faults import Fault
from tocsin.domain.intent import Intent
from tocsin.engine.accept.answers import Unreadable
from tocsin.engine.accept.write import Sourced
from tocsin.ingress.source import EntryDecoder
from tocsin.store.sources.refused import LONGEST_CONTENT
from tocsin.wire.streams.intents import LARGEST_ENTRY, LONGEST_PRODUCER, EntryFaultsError, read_fields

MOST_FAULTS = 20

_user_ids = msgspec.json.Decoder(list[str])


def read_entry(entry_id: str, raw: Mapping[bytes, bytes], unknown_producer: str) -> Sourced:
    """Decode an entry; one that is no valid intent is `Unreadable`, and never raises."""
    fields, faults = as_text(raw)
    written = partial(_written, entry_id, fields)
    return Sourced(
        producer=shown_producer(fields.get("producer") or unknown_producer),
        intent=_unreadable(fields, written(), faults) if faults else _read(fields, written),
        external_id=entry_id,
        written=written,
    )


INTENTS = EntryDecoder("redis_streams", read_entry)


def shown_producer(text: str) -> str:
    """Return the producer of an entry as it can be stored and shown."""
    text = text[:LONGEST_PRODUCER]
    return text if text.isprintable() else "".join(each if each.isprintable() else "\ufffd" for each in text)


def _written(entry_id: str, fields: Mapping[str, str]) -> str:
    # The audience comes in the form of any other intent, so that whoever erases a person finds them in it.
    shown = {"stream_entry_id": entry_id, "audience": _audience(fields), "fields": fields}
    return msgspec.json.encode(shown).decode()


def _audience(fields: Mapping[str, str]) -> dict[str, list[str]] | None:
    try:
        return {"users": _user_ids.decode(fields.get("recipient_user_ids_json", "[]"))}
    except (msgspec.MsgspecError, RecursionError):
        return None


def _read(fields: Mapping[str, str], written: Callable[[], str]) -> Intent | Unreadable:
    try:
        return read_fields(fields)
    except EntryFaultsError as error:
        return _unreadable(fields, written(), error.faults)


def as_text(raw: Mapping[bytes, bytes]) -> tuple[dict[str, str], list[Fault]]:
    """Decode names and values; what is no UTF-8 is a fault, and shown with replacement characters."""
    fields, faults = {}, []
    size = sum(len(name) + len(value) for name, value in raw.items())
    if size > LARGEST_ENTRY:
        message = f"has {size:,} bytes; at most {LARGEST_ENTRY:,} are taken"
        faults.append(Fault(field="$", code="too_large", message=message))
        raw = {name[:200]: value[:2_000] for name, value in list(raw.items())[:20]}
    for name, value in raw.items():
        try:
            fields[name.decode()] = value.decode()
        except UnicodeDecodeError:
            shown = name.decode(errors="replace")
            fields[shown] = value.decode(errors="replace")
            if len(faults) < MOST_FAULTS:
                faults.append(Fault(field=shown[:100], code="not_text", message="is not UTF-8"))
    return fields, faults


def _unreadable(fields: Mapping[str, str], content: str, faults: Sequence[Fault]) -> Unreadable:
    return Unreadable(
        faults=faults,
        content=content[:LONGEST_CONTENT],
        type=fields.get("notification_type"),
        idempotency_key=fields.get("idempotency_key"),
    )
