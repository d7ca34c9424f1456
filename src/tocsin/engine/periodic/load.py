"""The periodic producers that the settings name, all checked before the first one runs."""

from collections import Counter
from datetime import datetime

from tocsin.catalog.catalog import Catalog
from tocsin.domain.errors import SettingsError
from tocsin.domain.faults import Fault
from tocsin.engine.periodic.folder import Surroundings, read_scans
from tocsin.engine.periodic.python import import_producers
from tocsin.engine.periodic.settings import PeriodicSettings
from tocsin.engine.periodic.source import Source


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
