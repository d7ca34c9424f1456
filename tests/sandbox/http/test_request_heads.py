"""Header blocks that were decoded before mean what they would mean if they were decoded again."""

import hpack
import pytest
from hpack import NeverIndexedHeaderTuple

from tests.sandbox.http.raw_client import request_fields
from tocsin.http2.errors import ConnectionFault, StreamFault
from tocsin.http2.hpack_blocks import NO_TABLE
from tocsin.sandbox.http import request_heads
from tocsin.sandbox.http.request_heads import HeadDecoder, RequestHeads

ALLOW_TABLE = b"\x3f\xe1\x1f"
"""A dynamic table of 4,096 bytes."""


@pytest.fixture
def heads() -> RequestHeads:
    return RequestHeads("http", lambda *_: None)


def alone(path: str) -> bytes:
    """Encode a request without a table."""
    fields = [NeverIndexedHeaderTuple(*each) for each in request_fields("POST", path)]
    return bytes(hpack.Encoder().encode(fields))


def adding(path: str) -> bytes:
    """Encode a request whose path becomes an entry of the table, and nothing else."""
    return b"\x83\x86\x01\x01a\x44" + bytes([len(path)]) + path.encode()


def test_a_block_means_what_the_table_says_at_the_time(heads: RequestHeads) -> None:
    decoder = HeadDecoder(heads)
    by_index = b"\x83\x86\x01\x01a\xbe"

    for path in ("/ada", "/bob"):
        assert decoder.decode(adding(path)).path == path
        for _ in range(2):
            assert decoder.decode(by_index).path == path
    decoder.skip(adding("/eve"))
    assert decoder.decode(by_index).path == "/eve"
    decoder.read_trailers(b"\x40\x01x\x01y")
    with pytest.raises(StreamFault):
        decoder.decode(by_index)


def test_without_a_table_connections_share_what_they_know(heads: RequestHeads) -> None:
    first, second, other = HeadDecoder(heads), HeadDecoder(heads), HeadDecoder(heads)
    for decoder in (first, second):
        assert decoder.decode(NO_TABLE + alone("/ada")).path == "/ada"

    assert first.decode(alone("/ada")) is second.decode(alone("/ada"))
    assert other.decode(alone("/ada")) is not first.decode(alone("/ada"))


def test_what_a_table_says_is_not_known_to_other_connections(heads: RequestHeads) -> None:
    decoder, other = HeadDecoder(heads), HeadDecoder(heads)
    for each in (decoder, other):
        each.decode(NO_TABLE + alone("/ada"))
    decoder.decode(ALLOW_TABLE + adding("/bob"))
    by_index = b"\x83\x86\x01\x01a\xbe"

    assert decoder.decode(by_index).path == decoder.decode(by_index).path == "/bob"
    with pytest.raises(ConnectionFault):
        other.decode(by_index)
    decoder.decode(NO_TABLE + alone("/ada"))
    with pytest.raises(ConnectionFault):
        decoder.decode(by_index)


def test_heads_that_differ_do_not_fill_memory(heads: RequestHeads) -> None:
    decoder = HeadDecoder(heads)
    decoder.decode(NO_TABLE + alone("/"))
    for number in range(request_heads.MOST_KNOWN + 10):
        assert decoder.decode(alone(f"/{number}")).path == f"/{number}"
    decoder.decode(alone("/" + "a" * request_heads.MOST_KNOWN_BYTES))

    assert 0 < len(heads.blocks) <= request_heads.MOST_KNOWN
    assert max(map(len, heads.blocks)) <= request_heads.MOST_KNOWN_BYTES
