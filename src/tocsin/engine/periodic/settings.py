"""The settings of periodic producers."""

from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from tocsin.domain.faults import Fault


class PeriodicSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where periodic producers are declared: Python modules, a folder of scans, and the databases to scan."""

    modules: list[str] = []
    folder: Path | None = None
    databases: dict[str, str] = {}
    lease_seconds: Annotated[float, Meta(ge=1, le=3_600)] = 60.0

    def __repr__(self) -> str:
        """Show no address: it may hold a password."""
        return "PeriodicSettings(…)"


def periodic_settings_faults(settings: PeriodicSettings) -> list[Fault]:
    """Check that the folder of scans exists."""
    if settings.folder is not None and not settings.folder.is_dir():
        return [Fault(field="periodic.folder", code="missing", message="is not a folder")]
    return []
