"""The settings of webhooks."""

from collections.abc import Iterator
from typing import Annotated, ClassVar

from msgspec import Meta

from tocsin.domain.faults import Fault
from tocsin.providers.settings import ManyHostsSettings


class WebhookSettings(ManyHostsSettings, frozen=True, kw_only=True):
    """The settings section `webhook`."""

    section: ClassVar[str] = "webhook"

    timeout: Annotated[float, Meta(gt=0, le=300)] = 15.0
    user_agent: str = "Tocsin"
    """The `User-Agent` of requests."""

    def faults(self) -> Iterator[Fault]:
        """List what is wrong in the settings of webhooks."""
        agent = self.user_agent
        if not agent.strip() or not agent.isascii() or not agent.isprintable():
            message = f"{agent!r} must be printable ASCII text, such as Tocsin or Example-Shop/2.0"
            yield self.fault("user_agent", "invalid", message)
        yield from super().faults()
