"""The settings of the mailer's stream."""

from typing import Annotated, ClassVar

from msgspec import Meta

from tocsin.providers.redis_streams.settings import StreamKey, StreamProviderSettings
from tocsin.wire.streams.mail_commands import DEFAULT_STREAM


class MailStreamSettings(StreamProviderSettings, frozen=True, kw_only=True):
    """The settings section `mail_stream`."""

    section: ClassVar[str] = "mail_stream"

    stream: StreamKey = DEFAULT_STREAM
    """The stream that the mailer reads. It is not trimmed."""
    source: Annotated[str, Meta(min_length=1, max_length=100, pattern=r"^[ -~]+\Z")] = "notification"
    """The `source` of every command, and the beginning of its idempotency key."""
