"""Packs XADD commands in the protocol of Redis, many into one buffer.

The client library builds each command argument by argument, which costs four times as much.
"""

from collections.abc import Mapping


class XAdd:
    """Appends entries to one stream; with `max_len` the stream is trimmed to about that many."""

    def __init__(self, stream: str, max_len: int | None = None) -> None:
        trimming = [b"MAXLEN", b"~", b"%d" % max_len] if max_len is not None else []
        words = [b"XADD", stream.encode(), *trimming, b"*"]
        self._count = len(words)
        self._words = b"".join(map(_bulk, words))

    def pack(self, fields: Mapping[bytes, bytes]) -> bytes:
        """Return the command that appends one entry."""
        parts = [b"*%d\r\n%b" % (self._count + 2 * len(fields), self._words)]
        for name, value in fields.items():
            parts.append(b"$%d\r\n%b\r\n$%d\r\n%b\r\n" % (len(name), name, len(value), value))
        return b"".join(parts)


def _bulk(value: bytes) -> bytes:
    return b"$%d\r\n%b\r\n" % (len(value), value)
