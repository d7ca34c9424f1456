"""The settings that providers which append to a Redis stream share."""

from collections.abc import Iterator
from typing import Annotated, ClassVar

from msgspec import Meta

from tocsin.domain.faults import Fault
from tocsin.providers.settings import ProviderSettings

StreamKey = Annotated[str, Meta(min_length=1, max_length=512, pattern=r"^[^\x00]+\Z")]


class StreamProviderSettings(ProviderSettings, frozen=True, kw_only=True):
    """The settings of a provider that hands messages to another service through a stream."""

    enabled_by: ClassVar[str] = "enabled"

    enabled: bool = False
    """Whether this provider is used."""
    url: str = ""
    """The Redis server: `redis://`, `rediss://` or `unix://`. Left out: `redis.url`."""
    timeout: Annotated[float, Meta(gt=0, le=300)] = 1.0
    """Seconds a batch may take, after at most as long a wait for those before it."""
    max_concurrency: Annotated[int, Meta(ge=1, le=10_000)] = 1_000
    """The most messages in flight at once in each worker."""

    def __repr__(self) -> str:
        """Show no address: it may hold a password."""
        return f"{type(self).__name__}(enabled={self.enabled})"

    def faults(self) -> Iterator[Fault]:
        """List what is missing, once the provider is in use."""
        if self.enabled and not self.url:
            yield self.fault("url", "missing", "or redis.url, must be set: redis://…")
        if self.enabled and self.ca_file and self.url and not self.url.startswith("rediss:"):
            yield self.fault("ca_file", "contradiction", "is for TLS: a rediss:// address")
        yield from super().faults()
