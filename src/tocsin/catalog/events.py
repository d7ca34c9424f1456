"""Checks the events of the catalog against the providers that encode them."""

from collections.abc import Iterable

from tocsin.catalog.catalog import Catalog
from tocsin.domain.delivery.message import EncodesEvents, Provider
from tocsin.domain.errors import SettingsError
from tocsin.domain.faults import Fault


def check_events(catalog: Catalog, providers: Iterable[Provider]) -> None:
    """Raise SettingsError with every event that a provider could never encode."""
    faults = [
        Fault(field=str(compiled.type), code="event", message=message)
        for provider in providers
        if isinstance(provider, EncodesEvents)
        for compiled in catalog.compiled.values()
        if (event := compiled.type.event)
        if (message := provider.event_fault(event.table, event.fields))
    ]
    if faults:
        raise SettingsError("The events of the catalog cannot be encoded:", faults)
