"""What is known of a recipient at one moment, as far as it decides anything."""

from datetime import datetime
from typing import NamedTuple
from uuid import UUID

import msgspec

from tocsin.domain.delivery.message import TargetKind
from tocsin.domain.people.preferences import StoredChoices


class Destination(NamedTuple):
    """A device, endpoint, mailbox or topic that a message can be sent to; only the first two have an id.

    `sender_key` is the id of the key that a browser subscribed with.
    """

    id: UUID | None
    token: str
    provider: str
    platform: str
    locale: str | None = None
    timezone: str | None = None
    last_seen_at: datetime | None = None
    token_kind: TargetKind = "token"  # noqa: S105 - a kind of token, not one
    secret: str | None = None
    sender_key: str | None = None

    def __repr__(self) -> str:
        """Return the id and provider; never the token or the secret."""
        return f"Destination({self.id}, {self.provider}, {self.platform})"


class RecipientProfile(msgspec.Struct, frozen=True):
    """A person's directory entry, preferences and active devices, the device used last first.

    `mailbox` is the address for e-mail; `suppressed` means that it receives no mail. `device_timezone` is set
    where the devices themselves were not read. `attributes` are JSON, decoded by those who read them.
    """

    mailbox: str | None = None
    suppressed: bool = False
    device_timezone: str | None = None
    timezone: str | None = None
    gmt_offset_seconds: int | None = None
    allowed_window: str | None = None
    locale: str | None = None
    attributes: str | None = None
    choices: StoredChoices | None = None
    devices: tuple[Destination, ...] = ()


UNKNOWN_RECIPIENT = RecipientProfile()
