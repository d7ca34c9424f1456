"""Header blocks (RFC 7541), encoded without state: no dynamic table, so that each block stands alone.

That is what makes them cheap: one is encoded once and used again, and what was decoded before is looked up.
Our client allows its peers no table either. A server takes requests of clients that use one.
"""

from functools import cache

from tocsin.http2.errors import ConnectionFault, ErrorCode, ProtocolFault, StreamFault
from tocsin.http2.header_tables import FIELD_OVERHEAD, STATIC, DynamicTable, no_such_index
from tocsin.http2.huffman import decode_huffman
from tocsin.http2.reader import MOST_HEADER_BYTES

NO_TABLE = b"\x20"
"""The size of our dynamic table is 0: the first bytes of the first header block of a connection."""

_NAMES = {name: index for index, (name, _) in reversed(list(enumerate(STATIC))) if index}
_PAIRS = {pair: index for index, pair in reversed(list(enumerate(STATIC))) if index}
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
    while at < size:
        first = block[at]
        if first & _INDEXED:
            index = first - _INDEXED
            if 0 < index < len(STATIC):
                # The static table is smaller than what one byte can name.
                name, value = STATIC[index]
                at += 1
            else:
                index, at = _read_integer(block, at, 7)
                name, value = _field(index, table)
        elif first & _UPDATE_BITS == _TABLE_SIZE:
            largest, at = _read_integer(block, at, 5)
            _resize(table, largest, is_first=not fields)
            continue
        else:
            name, value, at = _read_literal(block, at, table)
            if table is not None and first & _LITERAL_INDEXED:
                table.add(name, value)
        listed += len(name) + len(value) + FIELD_OVERHEAD
        if listed > MOST_HEADER_BYTES:
            raise _too_many(table)
        fields.append((name, value))
    return fields


def _read_literal(block: bytes, at: int, table: DynamicTable | None) -> tuple[bytes, bytes, int]:
    first = block[at]
    mask = _LITERAL_INDEXED - 1 if first & _LITERAL_INDEXED else _NEVER_INDEXED - 1
    index = first & mask
    if index == mask:
        index, at = _read_integer(block, at, 6 if first & _LITERAL_INDEXED else 4)
    else:
        at += 1
    if not index:
        name, at = _read_string(block, at)
    elif index < len(STATIC):
        name = STATIC[index][0]
    else:
        name = _field(index, table)[0]
    # Most values are short: those are read here, the others by a call.
    length = block[at]
    end = at + 1 + length
    if length < _LONG_STRING and end <= len(block):
        return name, block[at + 1 : end], end
    value, at = _read_string(block, at)
    return name, value, at


def _field(index: int, table: DynamicTable | None) -> tuple[bytes, bytes]:
    if 0 < index < len(STATIC):
        return STATIC[index]
    if not index or table is None:
        raise no_such_index(index)
    return table.get(index)


def _resize(table: DynamicTable | None, size: int, *, is_first: bool) -> None:
    if not is_first or (size and table is None):
        raise _broken("a dynamic table, which was not allowed")
    if table is not None:
        table.resize(size)


def _read_string(block: bytes, at: int) -> tuple[bytes, int]:
    first = block[at]
    length = first & _LONG_STRING
    if length == _LONG_STRING:
        length, at = _read_integer(block, at, 7)
    else:
        at += 1
    end = at + length
    if end > len(block):
        raise _broken("a header that breaks off")
    text = block[at:end]
    return (decode_huffman(text) if first & _HUFFMAN else text), end


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


def _too_many(table: DynamicTable | None) -> ProtocolFault:
    """Build the fault of too many headers; the rest of the block would have changed the table."""
    kind = StreamFault if table is None else ConnectionFault
    return kind(ErrorCode.ENHANCE_YOUR_CALM, "too many headers")
