"""What a client sends, in pieces of any size and of any bytes."""

import contextlib

from hypothesis import given
from hypothesis import strategies as st

from tests.gateway.signalr.clients import HANDSHAKE, PING
from tocsin.gateway.signalr.protocol import (
    LARGEST_RECORD,
    SEPARATOR,
    Call,
    ClientMessage,
    Close,
    Handshake,
    HubProtocolError,
    HubReader,
)

RECORDS = {
    PING: None,
    b'{"type":1,"target":"x","invocationId":"7"}\x1e': Call("7"),
    b'{"type":4,"target":"x","invocationId":""}\x1e': None,
    b'{"type":1,"target":"x"}\x1e': None,
    b'{"type":-1}\x1e': None,
    b'{"type":7,"error":"x"}\x1e': Close(),
}


@given(st.lists(st.sampled_from(list(RECORDS))), st.lists(st.integers(1, 60)))
def test_messages_are_the_same_however_they_are_cut(records: list[bytes], sizes: list[int]) -> None:
    data, reader = HANDSHAKE + b"".join(records), HubReader()
    found: list[ClientMessage | None] = []
    for size in (*sizes, len(data)):
        found += reader.read(data[:size])
        data = data[size:]

    assert found == [Handshake(), *(RECORDS[record] for record in records)]


@given(st.lists(st.binary(max_size=2 * LARGEST_RECORD), max_size=5), st.booleans())
def test_any_bytes_are_read_or_refused_and_little_is_kept(pieces: list[bytes], agreed: bool) -> None:  # noqa: FBT001
    reader = HubReader()
    if agreed:
        assert list(reader.read(HANDSHAKE)) == [Handshake()]
    for piece in pieces:
        with contextlib.suppress(HubProtocolError):
            list(reader.read(piece))
        assert len(reader._incomplete) <= LARGEST_RECORD


def test_a_record_may_have_exactly_its_bound() -> None:
    reader = HubReader()
    list(reader.read(HANDSHAKE))
    record = b'{"type":6,"x":"' + b"x" * (LARGEST_RECORD - 17) + b'"}'
    assert len(record) == LARGEST_RECORD
    assert list(reader.read(record + SEPARATOR)) == [None]
