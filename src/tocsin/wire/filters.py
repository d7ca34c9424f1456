"""The filter that search, replay and cancelling by query have in common."""

from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from tocsin.domain.catalog import Channel
from tocsin.domain.delivery.reasons import Reason
from tocsin.domain.delivery.states import STATES_OF, STATUS_OF, State, Status
from tocsin.domain.faults import Fault
from tocsin.domain.intent import Key, Moment, UserId
from tocsin.domain.people.organisations import OrgId
from tocsin.domain.timing.moments import moment_faults

FilterText = Annotated[str, Meta(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f\ud800-\udfff]+\Z")]


class ServerTime(msgspec.Struct, frozen=True):
    """The time by the clock of the server, which a span such as the last two hours is counted back from."""

    now: datetime


class DeliveryFilter(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
    rename={"since": "from", "until": "to"},
):
    """Selects deliveries by their own fields and those of their notification; all that are given must match.

    `code` is the last error code, also of what was sent in the end. `provider` is the one that was tried, or
    whose lane a waiting delivery is in. `status` is another way to give the state. `from` (included) and `to`
    (excluded) bound the time of acceptance.
    """

    user: UserId | None = None
    type: FilterText | None = None
    state: State | None = None
    status: Status | None = None
    reason: Reason | None = None
    code: FilterText | None = None
    channel: Channel | None = None
    provider: FilterText | None = None
    producer: FilterText | None = None
    key_prefix: Key | None = None
    org_id: OrgId | None = None
    since: Moment | None = None
    until: Moment | None = None

    @property
    def states(self) -> tuple[State, ...]:
        """The states that match; none if all do."""
        if self.state is not None:
            return (self.state,)
        return () if self.status is None else STATES_OF[self.status]


def filter_faults(given: DeliveryFilter) -> list[Fault]:
    """List what is wrong with a filter beyond the types of its fields."""
    bounds = {"from": given.since, "to": given.until}
    faults = [fault for name, at in bounds.items() if at is not None for fault in moment_faults(name, at)]
    if not faults and given.since is not None and given.until is not None and given.since >= given.until:
        faults.append(Fault(field="to", code="out_of_range", message="must be later than from"))
    if given.status is not None and given.state is not None and STATUS_OF.get(given.state) != given.status:
        message = f"cannot be {given.status}: the state {given.state} has another one"
        faults.append(Fault(field="status", code="contradiction", message=message))
    return faults
