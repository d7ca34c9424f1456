"""The JSON hub protocol of SignalR: records of a handshake and of messages, each with a separator at its end.

The client's part is small, as the hub has no methods: it pings, and it may close the connection. See
https://github.com/dotnet/aspnetcore/blob/main/src/SignalR/docs/specs/HubProtocol.md.
"""

from collections.abc import Iterator
from enum import IntEnum
from typing import NamedTuple, TypeAlias

import msgspec

SEPARATOR = b"\x1e"
LARGEST_RECORD = 4_096
AGREED = b"{}" + SEPARATOR
UNKNOWN_METHOD = "The hub has no methods."
_NOT_READABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
_encoder = msgspec.json.Encoder()


class MessageType(IntEnum):
    """The types of messages that are sent or answered here; others are ignored."""

    INVOCATION = 1
    COMPLETION = 3
    STREAM_INVOCATION = 4
    PING = 6
    CLOSE = 7


PING = b'{"type":%d}' % MessageType.PING + SEPARATOR


class HubProtocolError(Exception):
    """The client does not speak the protocol; the message is for the client and quotes nothing."""


class Handshake(NamedTuple):
    """The client wants to speak JSON."""


class Call(NamedTuple):
    """The client calls a method and waits for a completion with the same id."""

    invocation_id: str


class Close(NamedTuple):
    """The client closes the connection."""


ClientMessage: TypeAlias = Handshake | Call | Close


class _HandshakeRecord(msgspec.Struct):
    protocol: str
    version: int


class _MessageRecord(msgspec.Struct, rename="camel"):
    type: int
    invocation_id: str | None = None


_handshakes = msgspec.json.Decoder(_HandshakeRecord)
_messages = msgspec.json.Decoder(_MessageRecord)


class HubReader:
    """Reads what a client sends, in pieces of any size; the beginning of a record is kept, up to a bound."""

    def __init__(self) -> None:
        self._is_agreed = False
        self._incomplete = b""

    def read(self, data: bytes) -> Iterator[ClientMessage | None]:
        """Yield the messages that are complete, None for what needs no answer; raise HubProtocolError."""
        *records, self._incomplete = (self._incomplete + data).split(SEPARATOR)
        if max(map(len, (*records, self._incomplete))) > LARGEST_RECORD:
            self._incomplete = b""
            raise HubProtocolError(f"A message may have {LARGEST_RECORD} bytes.")
        for record in records:
            yield self._message(record) if self._is_agreed else self._handshake(record)

    def _handshake(self, record: bytes) -> Handshake:
        try:
            wanted = _handshakes.decode(record)
        except _NOT_READABLE:
            raise HubProtocolError("The first message must be a handshake.") from None
        if (wanted.protocol, wanted.version) != ("json", 1):
            raise HubProtocolError("The hub speaks the protocol json, version 1, only.")
        self._is_agreed = True
        return Handshake()

    def _message(self, record: bytes) -> ClientMessage | None:
        try:
            message = _messages.decode(record)
        except _NOT_READABLE:
            raise HubProtocolError("A message is not a JSON object with a type.") from None
        if message.type == MessageType.CLOSE:
            return Close()
        is_call = message.type in {MessageType.INVOCATION, MessageType.STREAM_INVOCATION}
        return Call(message.invocation_id) if is_call and message.invocation_id else None


def refused_handshake(error: str) -> bytes:
    """Encode the answer to a handshake that failed."""
    return _record({"error": error})


def invocation(target: str, argument: bytes | None = None) -> bytes:
    """Encode the call of a client's method, with an argument that is JSON."""
    arguments = [] if argument is None else [msgspec.Raw(argument)]
    return _record({"type": MessageType.INVOCATION, "target": target, "arguments": arguments})


def refused_call(invocation_id: str) -> bytes:
    """Encode the completion of a call: there is no such method."""
    return _record({"type": MessageType.COMPLETION, "invocationId": invocation_id, "error": UNKNOWN_METHOD})


def closing(error: str, *, allow_reconnect: bool) -> bytes:
    """Encode the last message to a client."""
    return _record({"type": MessageType.CLOSE, "error": error, "allowReconnect": allow_reconnect})


def _record(value: object) -> bytes:
    return _encoder.encode(value) + SEPARATOR
