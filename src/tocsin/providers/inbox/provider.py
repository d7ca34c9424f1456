"""The inbox: the list of a person's messages inside an application.

Nobody outside takes the message. The provider shapes the item, and the settlement that marks the delivery as
sent stores it, in one transaction: it is sent if and only if the item is there, however often it is tried.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import ClassVar

from tocsin.domain.delivery.message import Limits, Message
from tocsin.domain.delivery.outcome import Outcome, Rejected, Sent
from tocsin.domain.plan import INBOX
from tocsin.providers.inbox.render import render
from tocsin.providers.inbox.settings import InboxSettings
from tocsin.providers.isolation import send_each

PAYLOAD_BYTES = 16_384
LONGEST_TTL = 2_419_200


class InboxProvider:
    """Turns messages into items."""

    name: ClassVar[str] = INBOX
    limits: ClassVar[Limits] = Limits(payload_bytes=PAYLOAD_BYTES, batch=200, ttl_seconds=LONGEST_TTL)

    def __init__(self, settings: InboxSettings) -> None:
        settings.raise_faults()
        self.concurrency = settings.max_concurrency

    async def prepare(self) -> None:
        """Do nothing: there is no connection."""

    async def send(self, batch: Sequence[Message], *, now: datetime) -> Sequence[Outcome]:  # noqa: ARG002
        """Return the item of each message."""
        return await send_each(self.name, batch, self._item)

    async def aclose(self) -> None:
        """Do nothing: there is no connection."""

    async def _item(self, message: Message) -> Outcome:
        item = render(message, self.limits.payload_bytes)
        return item if isinstance(item, Rejected) else Sent(item=item)
