"""The ids of the entries of a stream."""

from typing import NamedTuple


class EntryId(NamedTuple):
    """The id of an entry: milliseconds and a sequence number, in the order of the stream."""

    milliseconds: int
    sequence: int

    @classmethod
    def parse(cls, text: str) -> "EntryId":
        """Parse an id as Redis writes it."""
        milliseconds, _, sequence = text.partition("-")
        return cls(int(milliseconds), int(sequence or 0))

    def __str__(self) -> str:
        """Format the id as Redis does."""
        return f"{self.milliseconds}-{self.sequence}"
