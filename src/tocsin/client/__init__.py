"""The Python client: `Tocsin` for threads, `AsyncTocsin` for event loops."""

from tocsin.client.blocking import Person, Tocsin
from tocsin.client.concurrent import AsyncPerson, AsyncTocsin
from tocsin.client.errors import (
    AppendFailedError,
    ConflictError,
    ForbiddenError,
    ForkedError,
    NotFoundError,
    QueueFullError,
    RateLimitedError,
    RefusedError,
    UnauthorizedError,
    UnavailableError,
    UnreadableError,
    UnsentError,
)
from tocsin.client.intents import Intent, Question, Refusal, new_key
from tocsin.client.queue.buffer import QueueLimits
from tocsin.domain.errors import TocsinError
from tocsin.domain.faults import Fault
from tocsin.wire.answers import Accepted, Answer, Conflict, Duplicate, Invalid, Taken
from tocsin.wire.notifications import (
    Cancelled,
    Delivery,
    ExplainedDevice,
    ExplainedRoute,
    Explanation,
    Notification,
    Rescheduled,
    Step,
)
from tocsin.wire.notifications import FailedAttempt as Attempt
from tocsin.wire.people import Device, PreferenceChanges, Preferences, User

__all__ = [
    "Accepted",
    "Answer",
    "AppendFailedError",
    "AsyncPerson",
    "AsyncTocsin",
    "Attempt",
    "Cancelled",
    "Conflict",
    "ConflictError",
    "Delivery",
    "Device",
    "Duplicate",
    "ExplainedDevice",
    "ExplainedRoute",
    "Explanation",
    "Fault",
    "ForbiddenError",
    "ForkedError",
    "Intent",
    "Invalid",
    "NotFoundError",
    "Notification",
    "Person",
    "PreferenceChanges",
    "Preferences",
    "Question",
    "QueueFullError",
    "QueueLimits",
    "RateLimitedError",
    "Refusal",
    "RefusedError",
    "Rescheduled",
    "Step",
    "Taken",
    "Tocsin",
    "TocsinError",
    "UnauthorizedError",
    "UnavailableError",
    "UnreadableError",
    "UnsentError",
    "User",
    "new_key",
]
