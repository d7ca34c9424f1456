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

    Raise RefusedError with everything that JSON does not have, and for one text in place of a list.
    """
    fields = {name: value for name, value in given.items() if value is not None and name not in besides}
    audience = {name: fields.pop(name) for name in AUDIENCES if name in fields}
    whole = {**fields, "audience": audience}
    faults = [
        Fault(field=f"audience.{name}", code="invalid", message="must be a list, not one text")
        for name in _LISTS
        if isinstance(audience.get(name), str)
    ]
    encoded = b""
    try:
        encoded = _encoder.encode(whole)
        faults += non_finite_faults("", whole, encoded)
    except (ValueError, RecursionError) as error:
        faults += _faults_of_fields(fields, audience) or [_fault("$", error)]
    if faults:
        raise RefusedError("invalid_intent", "the intent is not valid", faults)
    return encoded


def _faults_of_fields(fields: Mapping[str, Any], audience: Mapping[str, Any]) -> list[Fault]:
    """List the fields that cannot be encoded, and the numbers that JSON does not have in the others."""
    faults = []
    for name, value in (*fields.items(), *((f"audience.{name}", value) for name, value in audience.items())):
        try:
            faults += non_finite_faults(name, value, _encoder.encode(value))
        except (ValueError, RecursionError) as error:
            faults.append(_fault(name, error))
    return faults


def _fault(field: str, error: ValueError | RecursionError) -> Fault:
    match error:
        case UnicodeEncodeError():
            return Fault(field=field, code="not_text", message="holds half of a surrogate pair")
        case RecursionError():
            return Fault(field=field, code="too_deep", message="is nested too deep")
        case _:
            return Fault(field=field, code="invalid", message=f"cannot be written as JSON: {error}")
