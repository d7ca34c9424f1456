"""The bodies of the operator's calls that the command line shares.

They import no web framework: a command starts faster without it.
"""

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

import msgspec

from tocsin.api.auth.api_keys import LONGEST_OVERLAP
from tocsin.api.auth.roles import Role
from tocsin.api.http.conversion import copy_fields
from tocsin.domain.people.organisations import OrgId
from tocsin.engine.health.provider_health import ProviderHealth
from tocsin.engine.inspect.sources import SourceRecord
from tocsin.engine.periodic.progress import ProgressRecord
from tocsin.engine.toggles.held import ToggleState
from tocsin.store.audit import AuditRow
from tocsin.store.health.provider_health import AlarmRecord
from tocsin.store.people.suppressions import Suppression
from tocsin.store.processes import ProcessRow
from tocsin.store.sources.refused import RefusedIntent
from tocsin.store.toggles import ToggleChange

ProducerName = Annotated[
    str, msgspec.Meta(min_length=1, max_length=100, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*\Z")
]

SCOPING_OFF = "cannot be given while TOCSIN_AUTH__ORG_SCOPING is off: such a key is refused"
DELIVERY_IS_FOR_ALL = "cannot be given for the role delivery: its calls are for all organisations"


class AlarmPage(msgspec.Struct, frozen=True):
    """Alarms, newest first; `next` is the `before` of the following page."""

    alarms: list[AlarmRecord]
    next: UUID | None


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One recorded action: who did what to which subject."""

    audit_id: UUID
    at: datetime
    actor: str
    action: str
    subject: str
    details: dict[str, Any]


class AuditPage(msgspec.Struct, frozen=True):
    """Recorded actions, newest first; `next` is the `before` of the following page."""

    entries: list[AuditEntry]
    next: UUID | None


def audit_entry(row: AuditRow) -> AuditEntry:
    """Build the entry of a row."""
    return copy_fields(AuditEntry, row, audit_id=row.id, details=msgspec.json.decode(row.details))


class ProgressList(msgspec.Struct, frozen=True):
    """The periodic producers, by name."""

    producers: list[ProgressRecord]


class SourceList(msgspec.Struct, frozen=True):
    """The outboxes, streams and queues that intents are read from, by kind and name."""

    sources: list[SourceRecord]


class CatalogStatus(msgspec.Struct, frozen=True):
    """The processes that run, each with the fingerprint of its catalog, and what is wrong by alarm code."""

    processes: list[ProcessRow]
    problems: dict[str, str]


class ReloadRequest(msgspec.Struct, frozen=True):
    """When the processes were asked to read their catalogs; null if none runs."""

    asked_at: datetime | None


class ProviderList(msgspec.Struct, frozen=True):
    """The providers in use."""

    providers: list[ProviderHealth]


class SuppressionPage(msgspec.Struct, frozen=True):
    """Suppressed addresses, newest first; `next` is the `before` of the following page."""

    suppressions: list[Suppression]
    next: str | None


class RemovedSuppression(msgspec.Struct, frozen=True):
    """An address that is no longer suppressed."""

    address: str


class ToggleList(msgspec.Struct, frozen=True):
    """The toggles that were ever switched, those that are off first; every other is on."""

    toggles: list[ToggleState]


class ToggleHistory(msgspec.Struct, frozen=True):
    """The changes of a toggle, newest first; `next` is the `before` of the following page."""

    changes: list[ToggleChange]
    next: int | None


class Refused(msgspec.Struct, frozen=True, kw_only=True):
    """An intent that was not accepted, and why."""

    refused_id: UUID
    producer: str
    source: str
    code: str
    type: str | None
    idempotency_key: str | None
    org_id: str | None = None
    faults: msgspec.Raw
    content: str
    refused_at: datetime


class RefusedPage(msgspec.Struct, frozen=True):
    """Refused intents, newest first; `next` is the `before` of the following page."""

    refused: list[Refused]
    next: UUID | None


def refused_entry(row: RefusedIntent) -> Refused:
    """Return a refused intent as it is listed."""
    return copy_fields(Refused, row, refused_id=row.id, faults=msgspec.Raw(row.faults.encode()))


class CreateKey(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The producer and the role of a new API key, and the organisation that it is bound to, if any."""

    producer: ProducerName
    role: Role
    org_id: OrgId | None = None


class RotateKey(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long the key that is replaced keeps working; 0 ends it at once."""

    overlap_seconds: Annotated[int, msgspec.Meta(ge=0, le=int(LONGEST_OVERLAP.total_seconds()))] = 86_400


class ApiKey(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An API key; `key` itself is only in the answer to its creation.

    A key that was rotated works until `expires_at`; `replaced_by` is the new one.
    """

    key_id: UUID
    producer: str
    role: Role
    hint: str
    created_at: datetime
    last_used_at: datetime | None
    revoked_at: datetime | None
    expires_at: datetime | None = None
    replaced_by: UUID | None = None
    org_id: str | None = None
    key: str | None = None


class RotatedApiKey(msgspec.Struct, frozen=True, kw_only=True):
    """The new key, shown this once, and the one that it replaces."""

    created: ApiKey
    replaced: ApiKey


class ApiKeyList(msgspec.Struct, frozen=True):
    """Every API key, newest first."""

    keys: list[ApiKey]
