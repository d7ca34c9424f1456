"""What the peer allows, as its SETTINGS say."""

from collections.abc import Iterable

import msgspec

from tocsin.http2.errors import ConnectionFault, ErrorCode
from tocsin.http2.frames import (
    DEFAULT_FRAME_SIZE,
    DEFAULT_WINDOW,
    LARGEST_FRAME_SIZE,
    LARGEST_WINDOW,
    Setting,
)


class PeerSettings(msgspec.Struct):
    """The settings of a peer that matter to us.

    We use no dynamic table of the peer, and no frame larger than the smallest MAX_FRAME_SIZE there can be.
    A server cannot ask for push: `most_push` is 0 there, and 1 for a client.
    """

    most_push: int = 0
    max_concurrent_streams: int | None = None
    initial_window_size: int = DEFAULT_WINDOW
    max_header_list_size: int | None = None

    def update(self, settings: Iterable[tuple[int, int]]) -> None:
        """Apply SETTINGS in their order; unknown ones are ignored."""
        for name, value in settings:
            match name:
                case Setting.ENABLE_PUSH if value > self.most_push:
                    raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "ENABLE_PUSH out of bounds")
                case Setting.MAX_CONCURRENT_STREAMS:
                    self.max_concurrent_streams = value
                case Setting.INITIAL_WINDOW_SIZE:
                    if value > LARGEST_WINDOW:
                        raise ConnectionFault(ErrorCode.FLOW_CONTROL_ERROR, "INITIAL_WINDOW_SIZE too large")
                    self.initial_window_size = value
                case Setting.MAX_FRAME_SIZE if not DEFAULT_FRAME_SIZE <= value <= LARGEST_FRAME_SIZE:
                    raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "MAX_FRAME_SIZE out of bounds")
                case Setting.MAX_HEADER_LIST_SIZE:
                    self.max_header_list_size = value
                case _:
                    pass
