"""The exception tree.

TocsinError
├── SettingsError        a setting is wrong, unknown or contradicts another
├── CatalogError         the catalog has faults
├── DatabaseError        the database cannot be reached or does not meet the requirements
│   └── DatabaseUnavailableError  it does not answer at the moment
└── ProviderSetupError   a provider cannot be built from its settings
"""

from collections.abc import Sequence

from tocsin.domain.faults import Fault


class TocsinError(Exception):
    """An error that an operator has to fix; the message says what is wrong and what to do."""


class FaultsError(TocsinError):
    """An error with every fault found, not just the first."""

    def __init__(self, summary: str, faults: Sequence[Fault]) -> None:
        self.summary = summary
        self.faults = tuple(faults)
        super().__init__("\n".join([summary, *(f"  {fault}" for fault in self.faults)]))


class SettingsError(FaultsError):
    """A setting is wrong, unknown or contradicts another."""


class CatalogError(FaultsError):
    """The catalog has faults."""


class DatabaseError(TocsinError):
    """The database cannot be reached or does not meet the requirements."""


class SchemaMissingError(DatabaseError):
    """No migration was applied to the schema."""


class DatabaseUnavailableError(DatabaseError):
    """The database does not answer at the moment; a process that runs already retries."""


class ProviderSetupError(TocsinError):
    """A provider cannot be built from its settings."""
