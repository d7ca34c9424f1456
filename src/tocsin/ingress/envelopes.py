"""What the payload of a message or a row may be: an intent, or an envelope of fisa."""

from typing import Any

import msgspec

from tocsin.catalog.catalog import Catalog
from tocsin.catalog.templates.jinja import RenderError
from tocsin.domain.faults import Fault
from tocsin.wire.faults import validation_fault
from tocsin.wire.fisa.envelope import Declared


def declared_by(catalog: Catalog) -> Declared:
    """Return a function that drops the fields of a payload that the schema of its type does not allow."""

    def declared(type_: str, payload: dict[str, Any]) -> dict[str, Any]:
        unknown = {fault.field for fault in catalog.faults(type_, None, payload) if fault.code == "unknown"}
        return {name: value for name, value in payload.items() if f"payload.{name}" not in unknown}

    return declared


def decoding_fault(error: Exception) -> Fault:
    """Return the fault of a payload that could not be decoded."""
    match error:
        case RecursionError():
            return Fault(field="$", code="too_deep", message="is nested too deep")
        case msgspec.ValidationError():
            fault = validation_fault(error)
            # Within a value of no declared type, msgspec does not name the place.
            return msgspec.structs.replace(fault, field="$") if "[...]" in fault.field else fault
        case RenderError():
            return Fault(field="$", code="not_rendered", message=str(error))
        case msgspec.DecodeError() | UnicodeDecodeError():
            return Fault(field="$", code="malformed_json", message=f"is not JSON: {error}")
        case _:
            message = f"cannot be read ({type(error).__name__})"
            return Fault(field="$", code="unreadable", message=message)
