"""Faults of values that do not have the type they should have."""

import msgspec

from tocsin.domain.faults import Fault


def validation_fault(error: msgspec.ValidationError, root: str = "$") -> Fault:
    """Convert the first fault that msgspec found; `root` is the name of the whole value."""
    message, _, field = str(error).replace("`", "").partition(" - at $")
    return Fault(field=field.removeprefix(".") or root, code="invalid", message=message)
