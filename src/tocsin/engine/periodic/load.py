"""The periodic producers that the settings name, all checked before the first one runs."""

from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from tocsin.catalog.catalog import Catalog
from tocsin.domain.errors import SettingsError
from tocsin.domain.faults import Fault
from tocsin.engine.periodic.folder import Surroundings, read_scans
from tocsin.engine.periodic.python import import_producers
from tocsin.engine.periodic.source import Source


class PeriodicSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where periodic producers are declared: Python modules, a folder of scans, and the databases to scan."""

    modules: list[str] = []
    folder: Path | None = None
    databases: dict[str, str] = {}
    lease_seconds: Annotated[float, Meta(ge=1, le=3_600)] = 60.0

    def __repr__(self) -> str:
        """Show no address: it may hold a password."""
        return "PeriodicSettings(…)"


def load_sources(settings: PeriodicSettings, catalog: Catalog, now: datetime) -> list[Source]:
    """Import the modules and read the scans, or raise with every fault of them."""
    faults: list[Fault] = []
    sources: list[Source] = [*import_producers(settings.modules, faults)]
    if settings.folder is not None:
        around = Surroundings(settings.databases, catalog, now)
        sources += read_scans(settings.folder, around, faults)
    for name, count in Counter(source.name for source in sources).items():
        if count > 1:
            message = f"is the name of {count} periodic producers; give each its own"
            faults.append(Fault(field=name, code="duplicate", message=message))
    if faults:
        raise SettingsError("The periodic producers cannot be used:", faults)
    return sources


def periodic_settings_faults(settings: PeriodicSettings) -> list[Fault]:
    """Check that the folder of scans exists."""
    if settings.folder is not None and not settings.folder.is_dir():
        return [Fault(field="periodic.folder", code="missing", message="is not a folder")]
    return []
