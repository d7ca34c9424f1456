"""Messages that are compressed in memory until they are written: one file for each hour."""

import time
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import zstandard

from tocsin.aws.archive.lines import Line
from tocsin.aws.archive.settings import ArchiveSettings
from tocsin.domain.ids import uuid7
from tocsin.ingress.sqs.queue import Received

MOST_FILES = 48
"""Hours that are open at a time; a backlog of more is written in several rounds."""
SUFFIX = ".ndjson.zst"


class ArchiveFile(NamedTuple):
    """A finished file, and the receipts of its messages."""

    name: str
    content: bytes
    receipts: Sequence[str]


class _OpenFile:
    def __init__(self, level: int) -> None:
        self.compressor = zstandard.ZstdCompressor(level=level, write_checksum=True).compressobj()
        self.chunks: list[bytes] = []
        self.receipts: list[str] = []


class Batch:
    """What the archive holds: it is full by messages, bytes or hours, and old after some time."""

    def __init__(self, settings: ArchiveSettings) -> None:
        self._settings = settings
        self._files: dict[str, _OpenFile] = {}
        self._bytes = 0
        self._began = 0.0
        self.messages = 0

    @property
    def is_full(self) -> bool:
        """Whether it should be written now."""
        settings = self._settings
        return (
            self.messages >= settings.roll_messages
            or self._bytes >= settings.roll_bytes
            or len(self._files) >= MOST_FILES
        )

    @property
    def seconds_left(self) -> float | None:
        """How long it may wait for more messages; None while it has none."""
        return self._began + self._settings.roll_seconds - time.monotonic() if self.messages else None

    def add(self, messages: Iterable[tuple[Received, Line]]) -> None:
        """Add messages with their lines."""
        if not self.messages:
            self._began = time.monotonic()
        lines: dict[str, list[bytes]] = {}
        for message, line in messages:
            file = self._files.get(line.partition)
            if file is None:
                file = self._files[line.partition] = _OpenFile(self._settings.level)
            file.receipts.append(message.receipt)
            lines.setdefault(line.partition, []).append(line.encoded)
            self._bytes += len(line.encoded)
            self.messages += 1
        for partition, encoded in lines.items():
            file = self._files[partition]
            if chunk := file.compressor.compress(b"".join(encoded)):
                file.chunks.append(chunk)

    def finish(self) -> list[ArchiveFile]:
        """Return the files, one for each hour."""
        return [
            ArchiveFile(
                name=f"{partition}/{uuid7()}{SUFFIX}",
                content=b"".join([*file.chunks, file.compressor.flush()]),
                receipts=file.receipts,
            )
            for partition, file in self._files.items()
        ]
