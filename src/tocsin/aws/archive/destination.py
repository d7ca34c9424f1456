"""Where files go: each is there whole, or not at all."""

import asyncio
import hashlib
import os
import time
from base64 import b64encode
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import structlog
from botocore.exceptions import ClientError

from tocsin.aws.archive.settings import ArchiveSettings
from tocsin.domain.errors import TocsinError
from tocsin.domain.ids import uuid7
from tocsin.providers.aws.clients import AwsClients
from tocsin.providers.aws.errors import AWS_FAULTS, are_credentials_expired

UNFINISHED = ".unfinished"
ABANDONED_SECONDS = 86_400.0
CONTENT_TYPE = "application/zstd"
WRITE_SECONDS = 120.0
"""How long an object may take: `aws.timeout` does not count until S3 has asked for the content."""

_log = structlog.stdlib.get_logger(__name__)


class WriteFailedError(TocsinError):
    """A file could not be written; nothing of it is there, or all of it."""


class Destination(Protocol):
    """Takes the files of an archive."""

    async def write(self, name: str, content: bytes) -> None:
        """Write a file so that it survives a crash, or raise WriteFailedError; again does no harm."""
        ...


class FolderDestination:
    """A folder on disk: a file is written elsewhere in it, synchronised, and renamed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._unfinished = folder / UNFINISHED

    async def write(self, name: str, content: bytes) -> None:
        """Write a file so that it survives a crash, or raise WriteFailedError."""
        try:
            await asyncio.to_thread(self._write, self._folder / name, content)
        except OSError as error:
            raise WriteFailedError(
                f"{type(error).__name__}: {error.strerror or 'no reason given'}"
            ) from error

    def remove_abandoned(self) -> None:
        """Remove what killed processes left unfinished, once it is so old that nobody works on it."""
        before = time.time() - ABANDONED_SECONDS
        for path in self._unfinished.glob("*"):
            with suppress(FileNotFoundError):
                if path.stat().st_mtime < before:
                    path.unlink()
                    _log.info("unfinished file removed", file=path.name)

    def _write(self, target: Path, content: bytes) -> None:
        self._make_folder(target.parent)
        self._make_folder(self._unfinished)
        unfinished = self._unfinished / f"{uuid7()}.part"
        try:
            with unfinished.open("xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            unfinished.rename(target)
        except OSError:
            with suppress(OSError):
                unfinished.unlink(missing_ok=True)
            raise
        _sync(target.parent)

    def _make_folder(self, folder: Path) -> None:
        """Make a folder below the destination, which itself must exist, each level synchronised."""
        if folder == self._folder or folder.is_dir():
            return
        self._make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        _sync(folder.parent)


class BucketDestination:
    """A bucket of S3: a file is one request, with a checksum that S3 compares."""

    def __init__(self, clients: AwsClients, bucket: str, prefix: str) -> None:
        self._clients = clients
        self._bucket = bucket
        self._prefix = prefix

    async def write(self, name: str, content: bytes) -> None:
        """Write an object, or raise WriteFailedError."""
        digest = await asyncio.to_thread(hashlib.sha256, content)
        try:
            async with asyncio.timeout(WRITE_SECONDS):
                s3 = await self._clients.client("s3")
                await s3.put_object(
                    Bucket=self._bucket,
                    Key=f"{self._prefix}{name}",
                    Body=content,
                    ContentType=CONTENT_TYPE,
                    ChecksumSHA256=b64encode(digest.digest()).decode(),
                )
        except ClientError as error:
            raise WriteFailedError(f"S3 answered with {error.response['Error']['Code']}") from error
        except (*AWS_FAULTS, RuntimeError) as error:
            if isinstance(error, RuntimeError) and not are_credentials_expired(error):
                raise
            raise WriteFailedError(type(error).__name__) from error


def destination(settings: ArchiveSettings, clients: AwsClients) -> Destination:
    """Build the destination that is set."""
    if settings.bucket is not None:
        return BucketDestination(clients, *settings.bucket)
    folder = FolderDestination(settings.folder)
    folder.remove_abandoned()
    return folder


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
