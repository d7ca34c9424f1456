"""The settings of the gateway's stream."""

from collections.abc import Iterator
from typing import Annotated, ClassVar

from msgspec import Meta

from tocsin.domain.faults import Fault
from tocsin.providers.redis_streams.settings import StreamKey, StreamProviderSettings
from tocsin.wire.streams.client_events import DEFAULT_STREAM


class GatewayStreamSettings(StreamProviderSettings, frozen=True, kw_only=True):
    """The settings section `gateway_stream`."""

    section: ClassVar[str] = "gateway_stream"

    stream: StreamKey = DEFAULT_STREAM
    """The stream that the gateway reads."""
    max_len: Annotated[int, Meta(ge=1, le=100_000_000)] = 1_024
    """About how many entries the stream keeps; older ones are trimmed."""
    tables: str = ""
    """The Python code that `flatc --python --gen-object-api` generated for the events of the catalog: a
    folder, or an importable package."""

    def faults(self) -> Iterator[Fault]:
        """List what is missing, once the provider is in use."""
        if self.enabled and not self.tables:
            message = "must be set: the folder of the code that flatc generated for the catalog's events"
            yield self.fault("tables", "missing", message)
        yield from super().faults()
