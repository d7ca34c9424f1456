"""Retries: from a call to its final reply, without I/O.

A flow yields calls and is sent their final replies; `attempts` converts each call into requests, which a
client sends, blocking or not.
"""

import random
import time
from collections.abc import Callable, Generator
from datetime import UTC, datetime, timedelta
from typing import TypeAlias, TypeVar

import msgspec

from tocsin.client.errors import RateLimitedError, UnavailableError
from tocsin.domain.delivery.backoff import Exponential, delay
from tocsin.domain.delivery.retry_after import read_retry_after

T = TypeVar("T")

TOO_MANY = 429
FIRST_SERVER_FAULT = 500
NEVER_DONE = 501
SHORTEST_TIMEOUT = 0.05


class Secret(msgspec.Struct, frozen=True):
    """An API key or token that is never printed."""

    value: str

    def __repr__(self) -> str:
        """Hide the value."""
        return "Secret(…)"


class Call(msgspec.Struct, frozen=True):
    """One call of the API; every call is idempotent."""

    method: str
    path: str
    body: bytes | None = None
    query: tuple[tuple[str, str], ...] = ()
    idempotency_key: str | None = None


class ClientRequest(msgspec.Struct, frozen=True):
    """One attempt of a call: sent after a delay, with a timeout."""

    call: Call
    secret: Secret
    timeout: float
    after: float = 0.0


class ApiReply(msgspec.Struct, frozen=True):
    """The response to a request."""

    status: int
    body: bytes
    retry_after: str | None = None
    location: str | None = None


class NoReply(msgspec.Struct, frozen=True):
    """No response, or none in time; the call may have been executed all the same."""

    why: str


class RetryPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """Limits on an attempt, on the whole call and on the number of retries, and the backoff between them."""

    timeout: float = 10.0
    deadline: float = 30.0
    retries: int = 5
    backoff: Exponential = Exponential(timedelta(milliseconds=100), timedelta(seconds=5), 2.0, 0.5)

    def __post_init__(self) -> None:
        if self.timeout <= 0 or self.deadline <= 0:
            raise ValueError(
                f"timeout and deadline must be more than 0 s, not {self.timeout:g} and {self.deadline:g}"
            )
        if self.retries < 0:
            raise ValueError(f"retries must be 0 or more, not {self.retries}")


class CallOptions(msgspec.Struct, frozen=True):
    """The credentials and the retry policy of calls; clock and randomness can be injected."""

    secret: Secret
    policy: RetryPolicy = RetryPolicy()
    monotonic: Callable[[], float] = time.monotonic
    chance: Callable[[], float] = random.random


Flow: TypeAlias = Generator[Call, ApiReply, T]
Attempts: TypeAlias = Generator[ClientRequest, ApiReply | NoReply, T]


def attempts(flow: Flow[T], options: CallOptions) -> Attempts[T]:
    """Run a flow call by call, with retries."""
    try:
        call = next(flow)
        while True:
            try:
                reply = yield from _exchange(call, options)
            except UnavailableError as error:
                call = flow.throw(error)
            else:
                call = flow.send(reply)
    except StopIteration as end:
        done: T = end.value
        return done
    finally:
        flow.close()


def is_retryable(outcome: ApiReply | NoReply) -> bool:
    """Return whether a retry can succeed: never after a 4xx other than 429."""
    if isinstance(outcome, NoReply):
        return True
    return outcome.status == TOO_MANY or (
        outcome.status >= FIRST_SERVER_FAULT and outcome.status != NEVER_DONE
    )


def retry_delay(outcome: ApiReply | NoReply, attempt: int, backoff: Exponential, chance: float) -> float:
    """Return the seconds to wait after an attempt: `Retry-After`, but not less than the backoff."""
    own = delay(backoff, attempt, chance)
    return max(own, _retry_after(outcome) or timedelta()).total_seconds()


def _exchange(call: Call, options: CallOptions) -> Attempts[ApiReply]:
    policy, started = options.policy, options.monotonic()
    after, attempt = 0.0, 0
    while True:
        attempt += 1
        left = policy.deadline - (options.monotonic() - started) - after
        timeout = max(min(policy.timeout, left), SHORTEST_TIMEOUT)
        outcome = yield ClientRequest(call, options.secret, timeout, after)
        if isinstance(outcome, ApiReply) and not is_retryable(outcome):
            return outcome
        after = retry_delay(outcome, attempt, policy.backoff, options.chance())
        spent = options.monotonic() - started
        if attempt > policy.retries or spent + after + SHORTEST_TIMEOUT > policy.deadline:
            raise _unavailable(outcome, attempt, call)


def _unavailable(outcome: ApiReply | NoReply, attempt: int, call: Call) -> UnavailableError:
    asked = _retry_after(outcome)
    retry_after = asked.total_seconds() if asked is not None else None
    if isinstance(outcome, ApiReply) and outcome.status == TOO_MANY:
        wait = f"; it asks to wait {retry_after:g} s" if retry_after is not None else ""
        error: UnavailableError = RateLimitedError(
            f"it limits the rate of calls{wait}", attempt, retry_after=retry_after
        )
    else:
        why = f"it answered {outcome.status}" if isinstance(outcome, ApiReply) else outcome.why
        error = UnavailableError(why, attempt, retry_after=retry_after)
    error.idempotency_key = call.idempotency_key
    return error


def _retry_after(outcome: ApiReply | NoReply) -> timedelta | None:
    return read_retry_after(outcome.retry_after, datetime.now(UTC)) if isinstance(outcome, ApiReply) else None
