"""Faults of values that do not have the type they should have."""

import difflib
import re

import msgspec

from tocsin.domain.faults import Fault
from tocsin.domain.intent import Audience, Intent

_UNKNOWN_FIELD = re.compile(r"^Object contains unknown field (\w+)$")
_FIELDS = (*Intent.__struct_fields__, *Audience.__struct_fields__)


def validation_fault(error: msgspec.ValidationError, root: str = "$") -> Fault:
    """Convert the first fault that msgspec found; `root` is the name of the whole value."""
    message, _, field = str(error).replace("`", "").partition(" - at $")
    if unknown := _UNKNOWN_FIELD.match(message):
        near = difflib.get_close_matches(unknown[1], _FIELDS, n=1)
        message += f"; did you mean {near[0]}?" if near else ""
    return Fault(field=field.removeprefix(".") or root, code="invalid", message=message)
