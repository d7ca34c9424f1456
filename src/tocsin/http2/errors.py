"""What a peer is told when it breaks a rule.

ProtocolFault                the peer broke a rule
├─ ConnectionFault           the connection is of no more use
└─ StreamFault               one stream is of no more use
"""

from enum import IntEnum


class ErrorCode(IntEnum):
    """The error codes of RFC 9113, section 7."""

    NO_ERROR = 0x0
    PROTOCOL_ERROR = 0x1
    INTERNAL_ERROR = 0x2
    FLOW_CONTROL_ERROR = 0x3
    SETTINGS_TIMEOUT = 0x4
    STREAM_CLOSED = 0x5
    FRAME_SIZE_ERROR = 0x6
    REFUSED_STREAM = 0x7
    CANCEL = 0x8
    COMPRESSION_ERROR = 0x9
    CONNECT_ERROR = 0xA
    ENHANCE_YOUR_CALM = 0xB
    INADEQUATE_SECURITY = 0xC
    HTTP_1_1_REQUIRED = 0xD


def code_name(code: int) -> str:
    """Return the name of an error code, or its number if the RFC has no such code."""
    try:
        return ErrorCode(code).name
    except ValueError:
        return f"error {code:#x}"


class ProtocolFault(Exception):  # noqa: N818 - the RFC's errors are codes; these carry one
    """A rule of the protocol that the peer broke; `code` is what it is told."""

    def __init__(self, code: ErrorCode, detail: str) -> None:
        self.code = code
        self.detail = detail
        super().__init__(f"{code.name}: {detail}")


class ConnectionFault(ProtocolFault):
    """The connection has to be closed."""


class StreamFault(ProtocolFault):
    """One stream has to be reset; the others go on."""
