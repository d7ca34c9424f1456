"""Dead letters and their replays as the API shows them."""

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

import msgspec
from msgspec import Meta

from tocsin.domain.delivery.states import DEAD_LETTERS, Status
from tocsin.domain.faults import Fault
from tocsin.domain.intent import Key
from tocsin.wire.filters import DeliveryFilter, filter_faults

DEFAULT_RATE = 100
LARGEST_RATE = 10_000


MOST_CHOSEN = 500
DeliveryIds = Annotated[list[UUID], Meta(min_length=1, max_length=MOST_CHOSEN)]


class DeadLetterFilter(DeliveryFilter, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Selects dead letters as search does, or some by their ids; without any field, all of them."""

    delivery_id: UUID | None = None
    delivery_ids: DeliveryIds | None = None
    notification_id: UUID | None = None


class Matches(msgspec.Struct, frozen=True):
    """How many deliveries a filter matches; with `or_more`, counting ended there."""

    count: int
    or_more: bool


class DeadLetterExample(msgspec.Struct, frozen=True, kw_only=True):
    """The newest dead letter of a group; an e-mail address is masked."""

    delivery_id: UUID
    notification_id: UUID
    channel: str
    recipient: str
    error: str | None
    hint: str | None
    settled_at: datetime


class DeadLetterGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Dead letters with one cause; `oldest` is when the first of them was settled.

    `recovery_hint` is one line: what to fix, and how all of them are sent after that.
    """

    state: str
    code: str | None
    provider: str | None
    type: str
    count: int
    oldest: datetime
    recovery_hint: str
    example: DeadLetterExample


class DeadLetterGroups(msgspec.Struct, frozen=True):
    """Dead letters by cause, the largest groups first; `truncated` if only the newest were counted."""

    groups: list[DeadLetterGroup]
    truncated: bool


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True):
    """A dead letter with its payload; an e-mail address is masked, device tokens are left out.

    `recovery_hint` is one line: what to fix, and how it is sent after that.
    """

    delivery_id: UUID
    notification_id: UUID
    type: str
    version: int
    producer: str
    idempotency_key: str
    channel: str
    recipient: str
    device_id: UUID | None
    state: str
    code: str | None
    provider: str | None
    error: str | None
    recovery_hint: str
    attempts: int
    accepted_at: datetime
    expires_at: datetime | None
    settled_at: datetime
    payload: dict[str, Any]


class DeadLetterPage(msgspec.Struct, frozen=True):
    """Dead letters, oldest first; `next` is the `after` of the following page, null after the last one."""

    dead_letters: list[DeadLetter]
    next: UUID | None


class ReplayRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to replay, at most `rate` deliveries a second.

    With `force`, also what is past its time to live, which begins anew. With `dry_run`, nothing is replayed.
    """

    filter: DeadLetterFilter
    rate: Annotated[int, Meta(ge=1, le=LARGEST_RATE)] = DEFAULT_RATE
    force: bool = False
    dry_run: bool = False
    idempotency_key: Key | None = None


class StartedReplay(msgspec.Struct, frozen=True):
    """The replay that was started, or how many deliveries a dry run found."""

    replay_id: UUID | None
    matched: Matches


class Replay(msgspec.Struct, frozen=True, kw_only=True):
    """How far a replay is; `left_out` counts by reason what it matched and could not replay."""

    replay_id: UUID
    state: str
    filter: dict[str, Any]
    rate: int
    force: bool
    created_by: str
    created_at: datetime
    matched: Matches
    replayed: int
    left_out: dict[str, int]
    finished_at: datetime | None
    stopped_by: str | None


class ReplayPage(msgspec.Struct, frozen=True):
    """Replays, newest first; `next` is the `before` of the following page."""

    replays: list[Replay]
    next: UUID | None


def dead_letter_faults(given: DeadLetterFilter, path: str = "") -> list[Fault]:
    """List what is wrong with a filter beyond the types of its fields."""
    faults = filter_faults(given)
    if given.state is not None and given.state not in DEAD_LETTERS:
        known = ", ".join(sorted(DEAD_LETTERS))
        faults.append(Fault(field="state", code="invalid", message=f"must be one of {known}"))
    if given.status not in {None, Status.DEAD_LETTER}:
        message = f"must be {Status.DEAD_LETTER}"
        faults.append(Fault(field="status", code="invalid", message=message))
    return [msgspec.structs.replace(fault, field=path + fault.field) for fault in faults]
