"""Huffman codes of header fields (RFC 7541, section 5.2), decoded byte by byte.

The table of hpack goes by half bytes, which takes longer. The rows made of it are built when they are needed.
"""

from functools import lru_cache

from hpack.huffman_table import HUFFMAN_COMPLETE, HUFFMAN_EMIT_SYMBOL, HUFFMAN_FAIL, HUFFMAN_TABLE

from tocsin.http2.errors import ConnectionFault, ErrorCode

MOST_KNOWN_BYTES = 512
"""The most bytes of a text that is remembered once it was decoded; a peer must not fill our memory."""

_HALF_BYTES = 16
_STATES = len(HUFFMAN_TABLE) // _HALF_BYTES
_FAILED = _STATES
"""The state after what is no code, which no byte leads out of."""

_Row = list[tuple[int, bytes]]
"""For each byte the next state, and the symbols that it completes."""

_rows: list[_Row | None] = [*[None] * _STATES, [(_FAILED, b"")] * 256]
_ENDS = frozenset({0}) | {
    state for state, flags, _ in HUFFMAN_TABLE if flags & HUFFMAN_COMPLETE and not flags & HUFFMAN_FAIL
}
"""The states in which a text may end: at most seven bits of padding follow its last symbol."""


def decode_huffman(text: bytes) -> bytes:
    """Decode a text; raise ConnectionFault for one that is no Huffman code."""
    return (_known if len(text) <= MOST_KNOWN_BYTES else _decode)(text)


def _decode(text: bytes) -> bytes:
    state, decoded, rows = 0, [], _rows
    for byte in text:
        state, symbols = (rows[state] or _build_row(state))[byte]
        decoded.append(symbols)
    if state not in _ENDS:
        raise ConnectionFault(ErrorCode.COMPRESSION_ERROR, "no Huffman code, or one that breaks off")
    return b"".join(decoded)


_known = lru_cache(1_024)(_decode)


def _build_row(state: int) -> _Row:
    row = _rows[state] = [_step(state, byte) for byte in range(256)]
    return row


def _step(state: int, byte: int) -> tuple[int, bytes]:
    symbols = b""
    for half in divmod(byte, _HALF_BYTES):
        state, flags, symbol = HUFFMAN_TABLE[state * _HALF_BYTES + half]
        if flags & HUFFMAN_FAIL:
            return _FAILED, b""
        if flags & HUFFMAN_EMIT_SYMBOL:
            symbols += bytes([symbol])
    return state, symbols
