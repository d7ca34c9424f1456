"""Header blocks (RFC 7541), encoded without state: no dynamic table, so that each block stands alone.

That is what makes them cheap: one is encoded once and used again, and what was decoded before is looked up.
Our client allows its peers no table either. A server takes requests of clients that use one.
"""

from functools import cache, lru_cache

from hpack.exceptions import InvalidTableIndex
from hpack.huffman_table import HUFFMAN_COMPLETE, HUFFMAN_EMIT_SYMBOL, HUFFMAN_FAIL, HUFFMAN_TABLE
from hpack.table import HeaderTable

from tocsin.http2.errors import ConnectionFault, ErrorCode, ProtocolFault, StreamFault
from tocsin.http2.reader import MOST_HEADER_BYTES

NO_TABLE = b"\x20"
"""The size of our dynamic table is 0: the first bytes of the first header block of a connection."""

MOST_KNOWN_BYTES = 512
"""The most bytes of a value that is remembered once it was decoded; a peer must not fill our memory."""

FIELD_OVERHEAD = 32
"""What a field counts besides its name and value towards MAX_HEADER_LIST_SIZE."""

_STATIC = HeaderTable.STATIC_TABLE
_NAMES = {name: index for index, (name, _) in reversed(list(enumerate(_STATIC, 1)))}
_PAIRS = {pair: index for index, pair in reversed(list(enumerate(_STATIC, 1)))}
_INDEXED, _LITERAL_INDEXED, _TABLE_SIZE, _NEVER_INDEXED = 0x80, 0x40, 0x20, 0x10
_UPDATE_BITS = _INDEXED | _LITERAL_INDEXED | _TABLE_SIZE
_HUFFMAN = 0x80
_LONG_STRING = 0x7F
_MOST_SHIFT = 28

Fields = list[tuple[bytes, bytes]]


def encode_field(name: bytes, value: bytes, *, sensitive: bool = False) -> bytes:
    """Encode one field: by its index if the static table has it, else as a literal that is not indexed."""
    if index := _PAIRS.get((name, value)):
        return _integer(index, 7, _INDEXED)
    return encode_name(name, sensitive=sensitive) + encode_string(value)


@cache
def encode_name(name: bytes, *, sensitive: bool) -> bytes:
    """Encode the name of a literal; a sensitive one must not be indexed by proxies either."""
    kind = _NEVER_INDEXED if sensitive else 0
    if name in _NAMES:
        return _integer(_NAMES[name], 4, kind)
    return bytes([kind]) + encode_string(name)


def encode_string(text: bytes) -> bytes:
    """Encode a string as it is."""
    length = len(text)
    return (b"%c%b" % (length, text)) if length < _LONG_STRING else _integer(length, 7, 0) + text


def _integer(value: int, bits: int, prefix: int) -> bytes:
    """Encode an integer behind the bits of a prefix (section 5.1)."""
    most = 2**bits - 1
    if value < most:
        return bytes([prefix | value])
    encoded = bytearray([prefix | most])
    value -= most
    while value > _LONG_STRING:
        encoded.append(value & _LONG_STRING | _HUFFMAN)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


class DynamicTable:
    """The table that a peer fills with header fields and refers to (section 2.3.2).

    `changes` counts what was done to it: while it stays the same, a block means the same.
    """

    def __init__(self) -> None:
        self._entries = HeaderTable()
        self.changes = 0

    @property
    def is_off(self) -> bool:
        """Whether the peer has given the table up, for now."""
        return self._entries.maxsize == 0

    def get(self, index: int) -> tuple[bytes, bytes]:
        """Return the field of an index, of the static table or of this one."""
        try:
            return self._entries.get_by_index(index)
        except InvalidTableIndex:
            raise _no_such_index(index) from None

    def add(self, name: bytes, value: bytes) -> None:
        """Add a field, in place of the oldest ones if there is no room."""
        self.changes += 1
        self._entries.add(name, value)

    def resize(self, size: int) -> None:
        """Take another size, up to the default."""
        if size > HeaderTable.DEFAULT_SIZE:
            raise _broken("a dynamic table larger than allowed")
        self.changes += 1
        self._entries.maxsize = size


def resizes_table(block: bytes) -> bool:
    """Return whether a block begins with another size of the table."""
    return bool(block) and block[0] & _UPDATE_BITS == _TABLE_SIZE


def decode_block(block: bytes, table: DynamicTable | None = None) -> Fields:
    """Decode a header block; raise ConnectionFault for one that is no HPACK.

    Without a table, one that needs it is an error as well.
    """
    try:
        return _decode(block, table)
    except IndexError as error:
        raise _broken("a header block that breaks off") from error


def _decode(block: bytes, table: DynamicTable | None) -> Fields:
    fields: Fields = []
    size, at, listed = len(block), 0, 0
    entry = _static if table is None else table.get
    while at < size:
        first = block[at]
        if first & _INDEXED:
            index, at = _read_integer(block, at, 7)
            name, value = entry(index)
        elif first & _UPDATE_BITS == _TABLE_SIZE:
            largest, at = _read_integer(block, at, 5)
            if fields or (largest and table is None):
                raise _broken("a dynamic table, which was not allowed")
            if table is not None:
                table.resize(largest)
            continue
        else:
            index, at = _read_integer(block, at, 6 if first & _LITERAL_INDEXED else 4)
            if index:
                name = entry(index)[0]
            else:
                name, at = _read_string(block, at)
            value, at = _read_string(block, at)
            if table is not None and first & _LITERAL_INDEXED:
                table.add(name, value)
        listed += len(name) + len(value) + FIELD_OVERHEAD
        if listed > MOST_HEADER_BYTES:
            raise _too_many(table)
        fields.append((name, value))
    return fields


def _static(index: int) -> tuple[bytes, bytes]:
    if not 0 < index <= len(_STATIC):
        raise _no_such_index(index)
    return _STATIC[index - 1]


def _read_string(block: bytes, at: int) -> tuple[bytes, int]:
    is_huffman = block[at] & _HUFFMAN
    length, at = _read_integer(block, at, 7)
    end = at + length
    if end > len(block):
        raise _broken("a header that breaks off")
    text = block[at:end]
    if is_huffman:
        text = (_known_huffman if length <= MOST_KNOWN_BYTES else _huffman)(text)
    return text, end


def _huffman(text: bytes) -> bytes:
    """Decode a Huffman code byte by byte: the table of hpack goes by half bytes, which takes longer."""
    state, ends, decoded = 0, True, []
    for byte in text:
        step = _steps.get(state << 8 | byte)
        if step is None:
            step = _steps[state << 8 | byte] = _huffman_step(state, byte)
        state, symbols, ends = step
        decoded.append(symbols)
    if not ends:
        raise _broken("a Huffman code that breaks off")
    return b"".join(decoded)


_known_huffman = lru_cache(1_024)(_huffman)
_steps: dict[int, tuple[int, bytes, bool]] = {}


def _huffman_step(state: int, byte: int) -> tuple[int, bytes, bool]:
    """Return the state after a byte, the symbols that it completes, and whether the text may end there."""
    symbols, flags = b"", 0
    for half in (byte >> 4, byte & 0xF):
        state, flags, symbol = HUFFMAN_TABLE[state * 16 + half]
        if flags & HUFFMAN_FAIL:
            raise _broken("no Huffman code")
        if flags & HUFFMAN_EMIT_SYMBOL:
            symbols += bytes([symbol])
    return state, symbols, bool(flags & HUFFMAN_COMPLETE)


def _read_integer(block: bytes, at: int, bits: int) -> tuple[int, int]:
    most = (1 << bits) - 1
    value = block[at] & most
    at += 1
    if value < most:
        return value, at
    shift = 0
    while True:
        part = block[at]
        at += 1
        value += (part & _LONG_STRING) << shift
        if part < _HUFFMAN:
            return value, at
        shift += 7
        if shift > _MOST_SHIFT:
            raise _broken("a number too large")


def _broken(detail: str) -> ConnectionFault:
    return ConnectionFault(ErrorCode.COMPRESSION_ERROR, detail)


def _no_such_index(index: int) -> ConnectionFault:
    return _broken(f"a header of index {index}, which no table has")


def _too_many(table: DynamicTable | None) -> ProtocolFault:
    """Build the fault of too many headers; the rest of the block would have changed the table."""
    kind = StreamFault if table is None else ConnectionFault
    return kind(ErrorCode.ENHANCE_YOUR_CALM, "too many headers")
