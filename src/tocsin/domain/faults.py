"""Validation faults of input: requests, settings and catalog files."""

import msgspec


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """One validation fault of one field, with a message for the person who can fix it."""

    field: str
    code: str
    message: str

    def __str__(self) -> str:
        """Format the fault as one line of text."""
        return f"{self.field}: {self.message}"
