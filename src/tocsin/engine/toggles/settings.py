"""The settings of toggles."""

import re
from collections.abc import Iterator

import msgspec

from tocsin.domain.faults import Fault

_PATH = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")


class TogglesSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What evaluates toggles: our table, or the OpenFeature provider that `module:callable` returns."""

    provider: str | None = None


def toggles_settings_faults(settings: TogglesSettings) -> Iterator[Fault]:
    """Check that the provider is an import path."""
    if settings.provider is not None and not _PATH.fullmatch(settings.provider):
        yield Fault(
            field="toggles.provider",
            code="invalid",
            message=f"{settings.provider!r} must be written like package.module:callable",
        )
