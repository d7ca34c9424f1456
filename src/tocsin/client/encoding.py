"""Encodes intents as the API and the outbox take them."""

from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from tocsin.client.errors import RefusedError
from tocsin.client.intents import AUDIENCES, Intent
from tocsin.domain.faults import Fault
from tocsin.wire.values.non_finite import non_finite_faults

_LISTS = ("users", "emails")
_encoder = msgspec.json.Encoder()


def encode_intent(intent: Intent) -> bytes:
    """Encode an intent as the body of a request; raise RefusedError for what JSON cannot hold."""
    return encode_fields(msgspec.structs.asdict(intent), besides={"at"})


def encode_fields(given: Mapping[str, Any], *, besides: Collection[str]) -> bytes:
    """Encode the fields of an intent that are given, and none `besides` them.

    Raise RefusedError with every number that JSON does not have, and for one text in place of a list.
    """
    fields = {name: value for name, value in given.items() if value is not None and name not in besides}
    audience = {name: fields.pop(name) for name in AUDIENCES if name in fields}
    whole = {**fields, "audience": audience}
    encoded = _encoder.encode(whole)
    faults = [
        Fault(field=f"audience.{name}", code="invalid", message="must be a list, not one text")
        for name in _LISTS
        if isinstance(audience.get(name), str)
    ]
    faults += non_finite_faults("", whole, encoded)
    if faults:
        raise RefusedError("invalid_intent", "the intent is not valid", faults)
    return encoded
