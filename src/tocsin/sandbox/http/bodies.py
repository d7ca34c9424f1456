"""Bodies of requests that come in parts, and the memory they may take."""

MOST_BODY_BYTES = 4 * 1_024 * 1_024
"""The most bytes of one body: providers take some hundred kilobytes at most."""

MOST_PARTIAL_BYTES = 64 * 1_024 * 1_024
"""The most bytes of all bodies of a sandbox that are not complete yet."""


class BodyTooLargeError(Exception):
    """A body is too large, or too many others are not complete yet."""


class BodyMemory:
    """The memory for partial bodies that all connections share."""

    def __init__(self) -> None:
        self.left = MOST_PARTIAL_BYTES


class PartialBody:
    """Collects one body."""

    def __init__(self, memory: BodyMemory) -> None:
        self._memory = memory
        self._content = bytearray()

    def __len__(self) -> int:
        return len(self._content)

    def add(self, part: bytes | bytearray) -> None:
        """Add a part; raise BodyTooLargeError if there is no room for it."""
        if len(self._content) + len(part) > MOST_BODY_BYTES or len(part) > self._memory.left:
            raise BodyTooLargeError
        self._memory.left -= len(part)
        self._content += part

    def release(self) -> bytes:
        """Return what was collected, and its memory to the others."""
        content, self._content = bytes(self._content), bytearray()
        self._memory.left += len(content)
        return content
