"""The settings of the mailer."""

from typing import Annotated

from msgspec import Meta

from tocsin.ingress.redis_streams.settings import StreamSettings
from tocsin.wire.streams.mail_commands import DEFAULT_STREAM


class MailerSettings(StreamSettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The stream of mail commands, and how it is read."""

    stream: Annotated[str, Meta(min_length=1, max_length=512, pattern=r"^[^\x00]+\Z")] = DEFAULT_STREAM

    def __repr__(self) -> str:
        """Show no address: it may hold a password."""
        return f"MailerSettings({self.stream})"
