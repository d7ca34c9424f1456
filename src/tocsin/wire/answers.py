"""The answer to each intent that a producer hands in."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, ClassVar, Literal, TypeAlias

import msgspec

from tocsin.domain.faults import Fault
from tocsin.domain.ids import NotificationId
from tocsin.domain.intent import Intent

LARGEST_BATCH = 1_000

Key = Annotated[str, msgspec.Meta(description="Filled in by the Python client; the server leaves it out.")]


class _Stored(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="status"):
    notification_id: NotificationId
    idempotency_key: Key = ""


class Accepted(_Stored, frozen=True, omit_defaults=True, tag="accepted"):
    """The notification is stored durably; `repeated_recipients` entries of its audience were repetitions.

    `waits_for` is set if it is not due yet: because of its `send_at` or `send_at_local`, or because it is
    collected for a `digest`. `waits_until` is when it is due; a digest that was open already is due sooner,
    and the moment of `send_at_local` differs between people, so that it has none. What is decided for
    each delivery when it is due, such as quiet hours, is not known yet.
    """

    status: ClassVar[Literal["accepted"]] = "accepted"

    repeated_recipients: int = 0
    waits_for: Literal["send_at", "send_at_local", "digest"] | None = None
    waits_until: datetime | None = None


class Duplicate(_Stored, frozen=True, tag="duplicate"):
    """The same key and content were accepted before, as this notification."""

    status: ClassVar[Literal["duplicate"]] = "duplicate"


class Conflict(_Stored, frozen=True, tag="conflict"):
    """The key belongs to other content, which became this notification."""

    status: ClassVar[Literal["conflict"]] = "conflict"

    @property
    def why(self) -> str:
        """Describe the conflict."""
        return f"the key belongs to other content, notification {self.notification_id}"


class Invalid(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="status", tag="invalid"):
    """The intent cannot be accepted as it is; `errors` lists every fault."""

    status: ClassVar[Literal["invalid"]] = "invalid"

    errors: Sequence[Fault]
    idempotency_key: Key = ""

    @property
    def why(self) -> str:
        """Describe every fault."""
        return "; ".join(map(str, self.errors))


Taken: TypeAlias = Accepted | Duplicate
Answer: TypeAlias = Accepted | Duplicate | Conflict | Invalid


class IntentBatch(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Several intents; each is answered by itself."""

    notifications: Annotated[list[Intent], msgspec.Meta(min_length=1, max_length=LARGEST_BATCH)]


class BatchResults(msgspec.Struct, frozen=True):
    """An answer for each intent, in the order of the request."""

    results: list[Accepted | Duplicate | Conflict | Invalid]
