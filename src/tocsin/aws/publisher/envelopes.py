"""The envelopes that rows of an outbox are published as."""

from collections.abc import Callable, Mapping
from typing import TypeAlias, assert_never

import msgspec

from tocsin.aws.publisher.messages import LARGEST_MESSAGE, largest_size
from tocsin.catalog.catalog import Catalog
from tocsin.domain.faults import Fault
from tocsin.domain.intent import Intent
from tocsin.domain.people.organisations import NOT_YOURS
from tocsin.ingress.outbox.envelopes import decoded, read_intent
from tocsin.ingress.outbox.rows import Row
from tocsin.ingress.outbox.settings import OutboxSettings
from tocsin.wire.fisa.envelope import FisaEnvelope, decode_row, from_intent
from tocsin.wire.values.nesting import DEEPEST, is_too_deep

EnvelopeReader: TypeAlias = Callable[[Row], FisaEnvelope | Fault]

SURELY_FITS = 30_000
"""A row of so many characters makes no message that is too large, even if each takes six bytes."""

_TEXTS = ("title", "body")


def envelope_reader(outbox: str, settings: OutboxSettings, catalog: Catalog) -> EnvelopeReader:
    """Return a function that decodes rows of an outbox as envelopes, and never raises.

    An event without an id of its own has that of its row with the name of the outbox: several outboxes may
    be published to one topic.
    """

    def decode(row: Row) -> FisaEnvelope:
        own_id = f"{outbox}:{row.id}"
        match settings.envelope:
            case "fisa":
                return decode_row(row.payload, own_id, row.type)
            case "intent":
                intent = read_intent(row, own_id)
                return from_intent(intent, settings.types, _texts(intent, catalog))
            case _:
                assert_never(settings.envelope)

    def read(row: Row) -> FisaEnvelope | Fault:
        found = _bound(decoded(row, decode), settings.org_id)
        if isinstance(found, Fault):
            return found
        if is_too_deep(row.payload, {"extras": found.extras}):
            # It could be decoded here, and then not be encoded, or not be decoded by its readers.
            return Fault(field="extras", code="too_deep", message=f"is nested deeper than {DEEPEST} levels")
        if len(row.payload) <= SURELY_FITS:
            return found
        if largest_size(found) > LARGEST_MESSAGE:
            message = f"is more than the {LARGEST_MESSAGE} bytes that SNS takes, with its attributes"
            return Fault(field="$", code="too_large", message=message)
        return found

    return read


def _bound(envelope: FisaEnvelope | Fault, org_id: str | None) -> FisaEnvelope | Fault:
    """Return an envelope as one of the outbox's organisation; one that names another is a fault."""
    if org_id is None or isinstance(envelope, Fault):
        return envelope
    if envelope.org_id is not None and str(envelope.org_id) != org_id:
        return Fault(field="org_id", code=NOT_YOURS, message="is not the organisation of the outbox")
    return msgspec.structs.replace(envelope, org_id=org_id)


def _texts(intent: Intent, catalog: Catalog) -> Mapping[str, str] | None:
    """Render the texts of an intent whose payload has none; a type that the catalog has is checked by it."""
    written = any(intent.payload.get(name) for name in _TEXTS)
    if written and intent.type not in catalog.types:
        return None
    if faults := catalog.faults(intent.type, intent.version, intent.payload):
        raise msgspec.ValidationError("; ".join(map(str, faults)))
    if written:
        return None
    newest, payload = catalog.resolve(intent.type, intent.version, intent.payload)
    parts = catalog.render(newest, "push", intent.locale, payload).parts
    return {name: parts[name] for name in _TEXTS if name in parts}
