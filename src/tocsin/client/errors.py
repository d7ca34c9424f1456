"""The errors of the client.

TocsinError
├── RefusedError         Tocsin will never accept this as it is; `faults` lists what to fix
├── ConflictError        the idempotency key belongs to other content
├── UnauthorizedError    the API key or token is missing, wrong, expired or revoked
├── ForbiddenError       the API key or token may not do this
├── NotFoundError        it does not exist, or belongs to another producer
├── UnavailableError     Tocsin was not reached or could not answer in time; trying again later is safe
│   └── RateLimitedError   it asks to wait for longer than a call may last
├── UnreadableError      the answer is not one of Tocsin's
├── AppendFailedError    Redis did not take an intent, or did not say so; trying again is safe
├── QueueFullError       the queue is full, and Tocsin cannot be reached
├── UnsentError          some of what was queued was not accepted
└── ForkedError          the first call was made before the process was forked
"""

from collections.abc import Sequence
from uuid import UUID

from tocsin.client.intents import Intent, Refusal
from tocsin.domain.errors import TocsinError
from tocsin.domain.faults import Fault


class RefusedError(TocsinError):
    """Tocsin will never accept this as it is; `faults` lists what to fix."""

    def __init__(self, code: str, detail: str, faults: Sequence[Fault] = ()) -> None:
        self.code = code
        self.faults = tuple(faults)
        lines = [f"Tocsin refused it ({code}): {detail}"]
        if faults:
            lines = [
                f"Tocsin refused it ({code}). Fix these before sending again:",
                *(f"  {fault}" for fault in faults),
            ]
        super().__init__("\n".join(lines))


class ConflictError(TocsinError):
    """The idempotency key belongs to other content."""

    def __init__(self, notification_id: UUID | None) -> None:
        self.notification_id = notification_id
        super().__init__(
            f"The idempotency key was used before with other content, for notification {notification_id}. "
            "Give every event a key of its own; to send the same again, send exactly the same content."
        )


class UnauthorizedError(TocsinError):
    """The API key or token is missing, wrong, expired or revoked."""

    def __init__(self, detail: str) -> None:
        super().__init__(
            f"Tocsin does not know who is asking: {detail} "
            "A producer's key is made by `tocsin keys create`; a person's token comes from your sign-in."
        )


class ForbiddenError(TocsinError):
    """The API key or token may not do this."""

    def __init__(self, code: str, detail: str) -> None:
        self.code = code
        super().__init__(f"This is not allowed ({code}): {detail} Use a key whose role has the right.")


class NotFoundError(TocsinError):
    """It does not exist, or belongs to another producer."""

    def __init__(self, detail: str) -> None:
        super().__init__(
            f"Tocsin answers «not found»: {detail} "
            "Check the id or key, and that the same producer's API key made it."
        )


class UnavailableError(TocsinError):
    """Tocsin was not reached or could not answer in time; trying again later is safe with the same key.

    `idempotency_key` is the one that was sent, where the call had one.
    """

    def __init__(self, why: str, attempts: int, *, retry_after: float | None = None) -> None:
        self.why = why
        self.attempts = attempts
        self.retry_after = retry_after
        self.idempotency_key: str | None = None
        tries = "1 attempt" if attempts == 1 else f"{attempts} attempts"
        super().__init__(
            f"Tocsin could not take it in {tries}: {why}. "
            "Check base_url and that the server is ready (GET /readyz), then try again with the same "
            "idempotency key: it cannot be accepted twice."
        )


class RateLimitedError(UnavailableError):
    """Tocsin asks to wait for longer than a call may last: `retry_after` seconds."""


class UnreadableError(TocsinError):
    """The answer is not one of Tocsin's."""

    def __init__(self, status: int, why: str) -> None:
        self.status = status
        super().__init__(
            f"The answer (status {status}) is not one of Tocsin's: {why}. "
            "Check that base_url leads to Tocsin's API and not to a proxy's page."
        )


class AppendFailedError(TocsinError):
    """Redis did not take an intent, or the answer was lost; trying again is safe with the same key.

    What the intent is about has happened all the same: nothing of yours should be rolled back for it.
    """

    def __init__(self, stream: str, idempotency_key: str, why: str) -> None:
        self.stream = stream
        self.idempotency_key = idempotency_key
        super().__init__(
            f"The intent {idempotency_key} may not have been appended to {stream} ({why}). "
            "Append it again with the same key; it is accepted once."
        )


class QueueFullError(TocsinError):
    """The queue is full, and Tocsin cannot be reached."""

    def __init__(self, bound: int) -> None:
        super().__init__(
            f"{bound:,} intents are queued and Tocsin cannot be reached, so this one was not queued. "
            "Keep it and queue it again later, or write it to an outbox table with your own data."
        )


class UnsentError(TocsinError):
    """Some of what was queued was not accepted.

    `refused` will never be accepted as it is; `unsent` can be sent again as it is.
    """

    def __init__(self, refused: Sequence[Refusal], unsent: Sequence[Intent] = ()) -> None:
        self.refused = tuple(refused)
        self.unsent = tuple(unsent)
        parts = []
        if self.refused:
            first = self.refused[0]
            parts.append(
                f"{len(self.refused)} were refused, the first of them {first.intent.type} with the key "
                f"{first.intent.key}: {first.answer.why}"
            )
        if self.unsent:
            parts.append(f"{len(self.unsent)} were not sent; they are in `unsent` and can be sent again")
        super().__init__(f"Not everything that was queued was accepted: {'; '.join(parts)}.")


class ForkedError(TocsinError):
    """The first call was made before the process was forked."""

    def __init__(self) -> None:
        super().__init__(
            "A call was made before this process was forked, and the HTTP runtime does not survive a fork. "
            "Making a client early is fine; make its first call after the fork: in a task or a request, "
            "not while the application is imported."
        )
