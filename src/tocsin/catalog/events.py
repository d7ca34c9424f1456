"""Checks the events of the catalog against the providers that encode them."""

from collections.abc import Iterable

from tocsin.catalog.catalog import Catalog
from tocsin.domain.catalog import NotificationType
from tocsin.domain.delivery.message import EncodesEvents, Provider
from tocsin.domain.errors import SettingsError
from tocsin.domain.faults import Fault


def check_events(catalog: Catalog, providers: Iterable[Provider]) -> None:
    """Raise SettingsError with every event that a provider could never encode, and every push without one."""
    faults = [
        Fault(field=str(compiled.type), code="event", message=message)
        for provider in providers
        if isinstance(provider, EncodesEvents)
        for compiled in catalog.compiled.values()
        if (message := _fault(compiled.type, provider))
    ]
    if faults:
        raise SettingsError("The events of the catalog cannot be encoded:", faults)


def _fault(type_: NotificationType, provider: EncodesEvents) -> str | None:
    if (event := type_.event) is not None:
        return provider.event_fault(event.table, event.fields)
    # A version that is upgraded has the event of the one that it becomes.
    if type_.upgrade is None and "push" in type_.used_channels:
        return "has no event, so none of its pushes could be encoded: declare one, or leave out its push"
    return None
