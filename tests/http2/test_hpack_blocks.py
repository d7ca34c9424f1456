"""Header blocks, compared with those of the package hpack."""

from types import SimpleNamespace
from typing import Any

import hpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.http2 import fields as header_fields
from tocsin.http2 import huffman
from tocsin.http2.errors import ConnectionFault, ErrorCode, StreamFault
from tocsin.http2.fields import field, read_headers, read_value
from tocsin.http2.flow_control import CONNECTION_WINDOW, ReceiveWindow, take_stream
from tocsin.http2.header_tables import DynamicTable
from tocsin.http2.hpack_blocks import decode_block, encode_field

NAMES = st.sampled_from([b":status", b"content-type", b"apns-id", b"x-" + b"long" * 40]) | st.binary(
    min_size=1, max_size=40
)
FIELDS = st.lists(st.tuples(NAMES, st.binary(max_size=300)), max_size=12)


def stateless_decoder() -> hpack.Decoder:
    decoder = hpack.Decoder()
    decoder.header_table_size = decoder.max_allowed_table_size = 0
    return decoder


@given(FIELDS, st.booleans())
def test_hpack_decodes_what_is_encoded(fields: list[tuple[bytes, bytes]], sensitive: Any) -> None:
    block = b"".join(encode_field(name, value, sensitive=sensitive) for name, value in fields)

    assert [(bytes(name), bytes(value)) for name, value in hpack.Decoder().decode(block, raw=True)] == fields


@given(st.lists(FIELDS, max_size=4), st.booleans())
def test_what_hpack_encodes_is_decoded(blocks: list[list[tuple[bytes, bytes]]], huffman: Any) -> None:
    encoder = hpack.Encoder()
    encoder.header_table_size = 0

    for fields in blocks:
        assert decode_block(encoder.encode(fields, huffman=huffman)) == fields


@given(st.lists(st.tuples(FIELDS, st.integers(0, 4_096) | st.none()), max_size=6), st.booleans())
def test_a_dynamic_table_is_followed_as_hpack_fills_it(
    blocks: list[tuple[list[tuple[bytes, bytes]], int | None]], huffman: Any
) -> None:
    encoder, table = hpack.Encoder(), DynamicTable()

    for fields, size in blocks:
        if size is not None:
            encoder.header_table_size = size
        before = table.changes
        block = encoder.encode(fields, huffman=huffman)
        assert decode_block(block, table) == fields
        if table.changes == before:
            assert decode_block(block, table) == fields


@given(st.lists(st.binary(max_size=60), max_size=4))
def test_any_bytes_change_a_table_as_they_do_hpacks(blocks: list[bytes]) -> None:
    table, decoder = DynamicTable(), hpack.Decoder()
    for block in blocks:
        try:
            expected = [(bytes(name), bytes(value)) for name, value in decoder.decode(block, raw=True)]
        except hpack.HPACKError:
            with pytest.raises(ConnectionFault):
                decode_block(block, table)
            return
        assert decode_block(block, table) == expected


@given(st.binary(max_size=60))
def test_any_bytes_are_decoded_as_hpack_does(block: bytes) -> None:
    try:
        expected = [
            (bytes(name), bytes(value)) for name, value in stateless_decoder().decode(block, raw=True)
        ]
    except hpack.HPACKError:
        with pytest.raises(ConnectionFault) as fault:
            decode_block(block)
        assert fault.value.code == ErrorCode.COMPRESSION_ERROR
    else:
        assert decode_block(block) == expected


def test_the_authorization_is_never_indexed_and_an_origin_has_short_fields() -> None:
    assert field("authorization", "a")[0] & 0xF0 == 0x10
    assert field("x-a", "a")[0] == 0
    assert (field(":method", "POST"), field(":scheme", "https")) == (b"\x83", b"\x87")


def test_windows_that_were_exceeded_are_an_error() -> None:
    window = ReceiveWindow()
    with pytest.raises(ConnectionFault) as ended:
        window.take(CONNECTION_WINDOW + 1)
    assert ended.value.code == ErrorCode.FLOW_CONTROL_ERROR

    stream: Any = SimpleNamespace(stream_id=1, receive_window=65_535)
    with pytest.raises(StreamFault) as reset:
        take_stream(stream, 65_536, end_stream=False)
    assert reset.value.code == ErrorCode.FLOW_CONTROL_ERROR


def test_long_texts_and_many_names_are_not_remembered() -> None:
    """Or a peer could fill our memory."""
    before = huffman._known.cache_info()
    for number in range(2_000):
        assert read_headers([(b"x-%d" % number, b"y"), (b"long" * 200 + b"%d" % number, b"")])
    for number in range(3):
        value = f"{number}".encode() * 5_000
        block = hpack.Encoder().encode([(b"user-agent", value)])
        assert read_headers(decode_block(block, DynamicTable())) == {"user-agent": value.decode()}

    assert huffman._known.cache_info().misses == before.misses
    assert len(header_fields._known_names) <= header_fields.MOST_KNOWN_NAMES
    assert max(map(len, header_fields._known_names)) <= header_fields.LONGEST_KNOWN_NAME


@given(st.binary(max_size=30))
def test_a_value_is_printable_and_has_no_space_at_its_ends(value: bytes) -> None:
    is_allowed = all(byte == 0x09 or 0x20 <= byte != 0x7F for byte in value) and value == value.strip(b" \t")
    try:
        assert read_value(value) == value.decode("utf-8", "replace")
    except StreamFault:
        assert not is_allowed
    else:
        assert is_allowed
