"""What is wrong with something a person or a program handed in."""

import msgspec


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """One thing wrong with one field, said to the person who can mend it."""

    field: str
    code: str
    message: str

    def __str__(self) -> str:
        """Show the fault as a line of text."""
        return f"{self.field}: {self.message}"
