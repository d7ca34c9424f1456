"""What a producer imports: `Tocsin` for threads, `AsyncTocsin` for event loops."""

from tocsin.client.answers import (
    Accepted,
    Answer,
    Cancelled,
    Conflict,
    Device,
    Duplicate,
    Invalid,
    PreferenceChanges,
    Preferences,
    Refusal,
    Rescheduled,
    Taken,
    User,
)
from tocsin.client.blocking import Person, Tocsin
from tocsin.client.concurrent import AsyncPerson, AsyncTocsin
from tocsin.client.errors import (
    ConflictError,
    ForbiddenError,
    ForkedError,
    NotFoundError,
    QueueFullError,
    RateLimitedError,
    RefusedError,
    TocsinError,
    UnauthorizedError,
    UnavailableError,
    UnreadableError,
    UnsentError,
)
from tocsin.client.intents import Intent, Question, new_key
from tocsin.client.queue.buffer import QueueLimits
from tocsin.domain.faults import Fault
from tocsin.wire.notifications import (
    Delivery,
    ExplainedDevice,
    ExplainedRoute,
    Explanation,
    Notification,
    Step,
)
from tocsin.wire.notifications import FailedAttempt as Attempt

__all__ = [
    "Accepted",
    "Answer",
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
