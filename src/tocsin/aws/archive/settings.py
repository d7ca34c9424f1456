"""The settings of the archive."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from tocsin.domain.faults import Fault
from tocsin.ingress.sqs.settings import Receivers, VisibilitySeconds, url_fault

S3 = "s3://"
MEGABYTE = 1_048_576


class ArchiveSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The queue that is archived, where to, and when a file is full.

    A file has at most so many messages, bytes before compression, and seconds between its first message and
    its write. SQS hands out at most 120,000 messages that are not deleted, and there are two files at a time.
    """

    queue_url: str = ""
    destination: str = ""
    roll_seconds: Annotated[float, Meta(ge=1, le=3_600)] = 60.0
    roll_messages: Annotated[int, Meta(ge=1, le=50_000)] = 20_000
    roll_bytes: Annotated[int, Meta(ge=MEGABYTE, le=256 * MEGABYTE)] = 32 * MEGABYTE
    level: Annotated[int, Meta(ge=1, le=19)] = 3
    receivers: Receivers = 8
    visibility_seconds: VisibilitySeconds = 120

    @property
    def bucket(self) -> tuple[str, str] | None:
        """The bucket and the prefix of keys, which ends with a slash if there is one; None for a folder."""
        if not self.destination.startswith(S3):
            return None
        bucket, _, prefix = self.destination.removeprefix(S3).partition("/")
        prefix = prefix.strip("/")
        return bucket, f"{prefix}/" if prefix else ""

    @property
    def folder(self) -> Path:
        """The folder, unless the destination is a bucket."""
        return Path(self.destination).expanduser()


def archive_settings_faults(settings: ArchiveSettings) -> Iterator[Fault]:
    """List what does not fit together."""
    if settings.queue_url and (message := url_fault(settings.queue_url)):
        yield Fault(field="archive.queue_url", code="invalid", message=message)
    if settings.bucket is not None and not settings.bucket[0]:
        message = "must name a bucket: s3://BUCKET/PREFIX"
        yield Fault(field="archive.destination", code="invalid", message=message)
    if settings.destination and settings.bucket is None and "://" in settings.destination:
        message = "must be a folder or s3://BUCKET/PREFIX"
        yield Fault(field="archive.destination", code="invalid", message=message)


def archive_start_faults(settings: ArchiveSettings) -> Iterator[Fault]:
    """List what keeps the archive from starting."""
    for name in ("queue_url", "destination"):
        if not getattr(settings, name):
            yield Fault(field=f"archive.{name}", code="missing", message="must be set")
    if settings.destination and settings.bucket is None and not settings.folder.is_dir():
        # Creating it would fill the wrong disk where one is not mounted.
        message = f"{settings.folder} is no folder; create it first"
        yield Fault(field="archive.destination", code="missing", message=message)
