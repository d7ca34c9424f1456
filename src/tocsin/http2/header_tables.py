"""The tables of header fields that blocks refer to (RFC 7541, section 2.3)."""

from collections import deque

from hpack.table import HeaderTable

from tocsin.http2.errors import ConnectionFault, ErrorCode

STATIC: tuple[tuple[bytes, bytes], ...] = ((b"", b""), *HeaderTable.STATIC_TABLE)
"""The fields of the static table by their index, which begins with 1."""

LARGEST_TABLE = 4_096
"""The most bytes of a dynamic table, unless SETTINGS allow another size."""

FIELD_OVERHEAD = 32
"""What a field counts besides its name and value, here and towards MAX_HEADER_LIST_SIZE."""


class DynamicTable:
    """The table that a peer fills with header fields.

    `changes` counts what was done to it: while it stays the same, a block means the same.
    """

    def __init__(self) -> None:
        self._fields: deque[tuple[bytes, bytes]] = deque()
        self._bytes = 0
        self._most = LARGEST_TABLE
        self.changes = 0

    @property
    def is_off(self) -> bool:
        """Whether the peer has given the table up, for now."""
        return not self._most

    def get(self, index: int) -> tuple[bytes, bytes]:
        """Return the field of an index above those of the static table, the newest first."""
        try:
            return self._fields[index - len(STATIC)]
        except IndexError:
            raise no_such_index(index) from None

    def add(self, name: bytes, value: bytes) -> None:
        """Add a field in place of the oldest ones; one larger than the table empties it."""
        self.changes += 1
        self._fields.appendleft((name, value))
        self._bytes += len(name) + len(value) + FIELD_OVERHEAD
        if self._bytes > self._most:
            self._evict()

    def resize(self, size: int) -> None:
        """Take another size, up to the largest."""
        if size > LARGEST_TABLE:
            raise ConnectionFault(ErrorCode.COMPRESSION_ERROR, "a dynamic table larger than allowed")
        self.changes += 1
        self._most = size
        self._evict()

    def _evict(self) -> None:
        while self._bytes > self._most:
            name, value = self._fields.pop()
            self._bytes -= len(name) + len(value) + FIELD_OVERHEAD


def no_such_index(index: int) -> ConnectionFault:
    """Build the fault of an index that no table has."""
    return ConnectionFault(ErrorCode.COMPRESSION_ERROR, f"a header of index {index}, which no table has")
