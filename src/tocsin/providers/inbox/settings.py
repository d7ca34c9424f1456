"""The settings of the inbox."""

from typing import Annotated, ClassVar

from msgspec import Meta

from tocsin.providers.settings import ProviderSettings


class InboxSettings(ProviderSettings, frozen=True, kw_only=True):
    """The settings section `inbox`."""

    section: ClassVar[str] = "inbox"
    enabled_by: ClassVar[str] = "enabled"

    enabled: bool = False
    """Whether messages for the channel `inbox` are stored."""
    max_concurrency: Annotated[int, Meta(ge=1, le=10_000)] = 2_000
    """The most items in each worker that were claimed and are not stored yet."""
