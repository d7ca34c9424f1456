"""The states of a delivery and the transitions between them."""

from collections.abc import Mapping
from enum import StrEnum


class State(StrEnum):
    """The state of a delivery. A lease is not a state."""

    SCHEDULED = "scheduled"
    PENDING = "pending"
    RETRYING = "retrying"
    SENT = "sent"
    DELIVERED = "delivered"
    REJECTED = "rejected"
    GONE = "gone"
    DEAD = "dead"
    SKIPPED = "skipped"
    CANCELLED = "cancelled"
    EXPIRED = "expired"


MEANING: Mapping[State, str] = {
    State.SCHEDULED: "waits for its time",
    State.PENDING: "due, never tried",
    State.RETRYING: "the last attempt failed, the next is planned",
    State.SENT: "the provider took it",
    State.DELIVERED: "a receipt confirmed it",
    State.REJECTED: "refused for good: payload, credentials",
    State.GONE: "the device no longer exists; it was retired",
    State.DEAD: "its attempts are used up, or its recovery ended",
    State.SKIPPED: "decided not to send, with a reason",
    State.CANCELLED: "cancelled by its producer",
    State.EXPIRED: "past its time to live",
}

_ENDS = frozenset(
    {
        State.SENT,
        State.REJECTED,
        State.GONE,
        State.DEAD,
        State.SKIPPED,
        State.CANCELLED,
        State.EXPIRED,
    }
)

TRANSITIONS: Mapping[State, frozenset[State]] = {
    State.SCHEDULED: frozenset({State.PENDING, State.SKIPPED, State.CANCELLED, State.EXPIRED}),
    State.PENDING: _ENDS | {State.SCHEDULED, State.RETRYING},
    State.RETRYING: _ENDS | {State.RETRYING},
    State.SENT: frozenset({State.DELIVERED, State.RETRYING}),
    State.REJECTED: frozenset({State.PENDING}),
    State.GONE: frozenset({State.PENDING}),
    State.DEAD: frozenset({State.PENDING}),
    State.DELIVERED: frozenset(),
    State.SKIPPED: frozenset(),
    State.CANCELLED: frozenset(),
    State.EXPIRED: frozenset(),
}

WAITING = frozenset({State.SCHEDULED, State.PENDING, State.RETRYING})
"""States a claim may take; everything else is settled."""

CLAIMED = frozenset({State.PENDING, State.RETRYING})
"""States a delivery under lease can be in: a claim turns `scheduled` into `pending`."""

DEAD_LETTERS = frozenset({State.DEAD, State.REJECTED, State.GONE})
"""States of deliveries that failed for good: a replay makes them pending."""


class Status(StrEnum):
    """The state of a delivery in the words of producers that hand in intents by a stream."""

    PENDING = "pending"
    PUBLISHED = "published"
    FAILED = "failed"
    DEAD_LETTER = "dead_letter"
    SKIPPED = "skipped"


STATUS_OF: Mapping[State, Status] = {
    State.SCHEDULED: Status.PENDING,
    State.PENDING: Status.PENDING,
    State.RETRYING: Status.FAILED,
    State.SENT: Status.PUBLISHED,
    State.DELIVERED: Status.PUBLISHED,
    State.REJECTED: Status.DEAD_LETTER,
    State.DEAD: Status.DEAD_LETTER,
    State.SKIPPED: Status.SKIPPED,
}
"""The statuses of the states that have one: those producers know no devices, cancelling or time to live."""

STATES_OF: Mapping[Status, tuple[State, ...]] = {
    status: tuple(state for state, its in STATUS_OF.items() if its is status) for status in Status
}
