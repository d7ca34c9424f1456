"""From a call to its final reply: when to try again, for how long, and when to give up.

Nothing here touches the network or sleeps. A plan yields calls and is sent their final replies; `attempts`
turns each into requests, which a face carries out, blocking or not.
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
    """An API key or token, kept out of everything that is printed."""

    value: str

    def __repr__(self) -> str:
        """Tell nothing."""
        return "Secret(…)"


class Call(msgspec.Struct, frozen=True):
    """One call of the API; all of them can be repeated without harm."""

    method: str
    path: str
    body: bytes | None = None
    query: tuple[tuple[str, str], ...] = ()
    idempotency_key: str | None = None


class Request(msgspec.Struct, frozen=True):
    """A call to be made after a pause, within a time."""

    call: Call
    secret: Secret
    timeout: float
    after: float = 0.0


class Reply(msgspec.Struct, frozen=True):
    """What came back."""

    status: int
    body: bytes
    retry_after: str | None = None
    location: str | None = None


class Lost(msgspec.Struct, frozen=True):
    """Nothing came back, or not in time; the call may have been done all the same."""

    why: str


class Patience(msgspec.Struct, frozen=True, kw_only=True):
    """How long one attempt and the whole call may last, and how often and when it is tried again."""

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


class Link(msgspec.Struct, frozen=True):
    """In whose name calls are made and with how much patience."""

    secret: Secret
    patience: Patience = Patience()
    monotonic: Callable[[], float] = time.monotonic
    chance: Callable[[], float] = random.random


Plan: TypeAlias = Generator[Call, Reply, T]
Attempts: TypeAlias = Generator[Request, Reply | Lost, T]


def attempts(plan: Plan[T], link: Link) -> Attempts[T]:
    """Carry out a plan call by call."""
    try:
        call = next(plan)
        while True:
            try:
                reply = yield from _exchange(call, link)
            except UnavailableError as error:
                call = plan.throw(error)
            else:
                call = plan.send(reply)
    except StopIteration as end:
        done: T = end.value
        return done
    finally:
        plan.close()


def may_pass(outcome: Reply | Lost) -> bool:
    """Tell whether the same call can fare better later; what a caller did wrong never does."""
    if isinstance(outcome, Lost):
        return True
    return outcome.status == TOO_MANY or (
        outcome.status >= FIRST_SERVER_FAULT and outcome.status != NEVER_DONE
    )


def pause(outcome: Reply | Lost, attempt: int, backoff: Exponential, chance: float) -> float:
    """Say how many seconds to wait after attempt number `attempt`: as asked, at least as the backoff says."""
    own = delay(backoff, attempt, chance)
    asked = _asked(outcome)
    return max(own, asked or timedelta()).total_seconds()


def _exchange(call: Call, link: Link) -> Attempts[Reply]:
    patience, started = link.patience, link.monotonic()
    after, attempt = 0.0, 0
    while True:
        attempt += 1
        left = patience.deadline - (link.monotonic() - started) - after
        timeout = max(min(patience.timeout, left), SHORTEST_TIMEOUT)
        outcome = yield Request(call, link.secret, timeout, after)
        if isinstance(outcome, Reply) and not may_pass(outcome):
            return outcome
        after = pause(outcome, attempt, patience.backoff, link.chance())
        spent = link.monotonic() - started
        if attempt > patience.retries or spent + after + SHORTEST_TIMEOUT > patience.deadline:
            raise _unavailable(outcome, attempt, call)


def _unavailable(outcome: Reply | Lost, attempt: int, call: Call) -> UnavailableError:
    asked = _asked(outcome)
    retry_after = asked.total_seconds() if asked is not None else None
    if isinstance(outcome, Reply) and outcome.status == TOO_MANY:
        wait = f"; it asks to wait {retry_after:g} s" if retry_after is not None else ""
        error: UnavailableError = RateLimitedError(
            f"it was asked too often{wait}", attempt, retry_after=retry_after
        )
    else:
        why = f"it answered {outcome.status}" if isinstance(outcome, Reply) else outcome.why
        error = UnavailableError(why, attempt, retry_after=retry_after)
    error.idempotency_key = call.idempotency_key
    return error


def _asked(outcome: Reply | Lost) -> timedelta | None:
    return read_retry_after(outcome.retry_after, datetime.now(UTC)) if isinstance(outcome, Reply) else None
