"""Cancelling notifications by a query."""

from typing import Annotated
from uuid import UUID

import msgspec

from tocsin.domain.faults import Fault
from tocsin.domain.intent import Key, Moment
from tocsin.domain.people.organisations import OrgId
from tocsin.wire.filters import DeliveryFilter, FilterText, filter_faults


class CancelFilter(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
    rename={"since": "from", "until": "to"},
):
    """Selects notifications by the fields that search has too; at least one must be given."""

    type: FilterText | None = None
    producer: FilterText | None = None
    key_prefix: Key | None = None
    org_id: OrgId | None = None
    since: Moment | None = None
    until: Moment | None = None

    def of_deliveries(self) -> DeliveryFilter:
        """Return the same as a filter of search."""
        return DeliveryFilter(**msgspec.structs.asdict(self))


class CancelRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to cancel; with `dry_run`, it is only counted."""

    filter: CancelFilter
    dry_run: bool = False
    cursor: Annotated[UUID | None, msgspec.Meta(description="The `next_cursor` of the answer before.")] = None


class CancelledByQuery(msgspec.Struct, frozen=True, kw_only=True):
    """How many deliveries wait and match, how many of them were cancelled, and how many are being sent.

    What is being sent may arrive; if it fails, it is not tried again. With `next_cursor` there may be more.
    """

    matched: int
    cancelled: int
    in_flight: int
    next_cursor: UUID | None


def cancel_faults(given: CancelFilter, path: str = "") -> list[Fault]:
    """List what is wrong with a filter beyond the types of its fields."""
    faults = filter_faults(given.of_deliveries())
    if given == CancelFilter():
        names = ", ".join(CancelFilter.__struct_encode_fields__)
        faults.append(Fault(field="", code="missing", message=f"must have at least one of {names}"))
    return [
        msgspec.structs.replace(fault, field=f"{path}.{fault.field}".strip(".") or "filter")
        for fault in faults
    ]
