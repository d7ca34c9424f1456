"""Header blocks without state (RFC 7541): neither side has a dynamic table, so that each block stands alone.

That is what makes them cheap: one is encoded once and used again, and what was decoded before is looked up.
"""

from functools import cache, lru_cache

from hpack.huffman_table import HUFFMAN_COMPLETE, HUFFMAN_EMIT_SYMBOL, HUFFMAN_FAIL, HUFFMAN_TABLE
from hpack.table import HeaderTable

from tocsin.http2.errors import ConnectionFault, ErrorCode, StreamFault
from tocsin.http2.reader import MOST_HEADER_BYTES

NO_TABLE = b"\x20"
"""The size of our dynamic table is 0: the first bytes of the first header block of a connection."""

FIELD_OVERHEAD = 32
"""What a field counts besides its name and value towards MAX_HEADER_LIST_SIZE."""

_STATIC = HeaderTable.STATIC_TABLE
_NAMES = {name: index for index, (name, _) in reversed(list(enumerate(_STATIC, 1)))}
_PAIRS = {pair: index for index, pair in reversed(list(enumerate(_STATIC, 1)))}
_INDEXED, _LITERAL_INDEXED, _TABLE_SIZE, _NEVER_INDEXED = 0x80, 0x40, 0x20, 0x10
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


def decode_block(block: bytes) -> Fields:
    """Decode a header block; raise ConnectionFault for one that is no HPACK or needs a dynamic table."""
    try:
        return _decode(block)
    except IndexError as error:
        raise _broken("a header block that breaks off") from error


def _decode(block: bytes) -> Fields:
    fields: Fields = []
    size, at, listed = len(block), 0, 0
    while at < size:
        first = block[at]
        if first & _INDEXED:
            index, at = _read_integer(block, at, 7)
            name, value = _static(index)
        elif first & (_LITERAL_INDEXED | _TABLE_SIZE) == _TABLE_SIZE:
            largest, at = _read_integer(block, at, 5)
            if largest or fields:
                raise _broken("a dynamic table, which was not allowed")
            continue
        else:
            index, at = _read_integer(block, at, 6 if first & _LITERAL_INDEXED else 4)
            if index:
                name = _static(index)[0]
            else:
                name, at = _read_string(block, at)
            value, at = _read_string(block, at)
        listed += len(name) + len(value) + FIELD_OVERHEAD
        if listed > MOST_HEADER_BYTES:
            raise StreamFault(ErrorCode.ENHANCE_YOUR_CALM, "too many headers")
        fields.append((name, value))
    return fields


def _static(index: int) -> tuple[bytes, bytes]:
    if not 0 < index <= len(_STATIC):
        raise _broken(f"a header of index {index}, which no table has")
    return _STATIC[index - 1]


def _read_string(block: bytes, at: int) -> tuple[bytes, int]:
    is_huffman = block[at] & _HUFFMAN
    length, at = _read_integer(block, at, 7)
    end = at + length
    if end > len(block):
        raise _broken("a header that breaks off")
    text = block[at:end]
    return (_huffman(text) if is_huffman else text), end


@lru_cache(1_024)
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
