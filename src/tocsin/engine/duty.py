"""Duties: upkeep that a process repeats until it is stopped.

A duty has one method, `run`, which goes on until it is cancelled. A process runs its duties as the tasks of
one TaskGroup and stops them by cancelling those tasks. `repeat` is the loop behind each of them:

- a fault of the database is logged as the warning `duty failed`, and the step is retried after a pause;
- so is what a duty lists in `faults`, but as an error, since an operator has to act on it;
- the first step that succeeds after failures is logged as `duty recovered`;
- a fault raised while the duty is being cancelled does not hide that: a connection that is given back in the
  middle of a statement may raise one;
- any other exception is a bug: it is logged as `duty crashed` and raised, so that the TaskGroup ends the
  process and whoever supervises it starts it again.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeAlias

import structlog

from tocsin.domain.delivery.backoff import Backoff, delay
from tocsin.domain.errors import DatabaseError
from tocsin.providers.isolation import is_cancelled
from tocsin.store.pool import DATABASE_FAULTS

Step: TypeAlias = Callable[[], Awaitable[bool | None]]
"""One round of a duty; it returns True if there is more work, so that the next round follows at once."""

RETRIED_FAULTS: tuple[type[Exception], ...] = (DatabaseError, *DATABASE_FAULTS)

_log = structlog.stdlib.get_logger(__name__)


class Duty(Protocol):
    """Upkeep that runs beside the main work of a process."""

    async def run(self) -> None:
        """Run until cancelled."""
        ...


async def repeat(
    step: Step,
    *,
    name: str,
    every: float,
    wake: asyncio.Event | None = None,
    stop: asyncio.Event | None = None,
    backoff: Backoff | None = None,
    faults: tuple[type[Exception], ...] = RETRIED_FAULTS,
    subject: str | None = None,
) -> None:
    """Call `step` every `every` seconds until cancelled, or until `stop` is set between two steps.

    `wake` ends a pause early; it is cleared before each step, so what happens during one leads to another.
    After one of `faults` the pause is `every`, or grows by `backoff`, and only `stop` ends it early.
    Log lines carry `name` as `duty`, and the `subject` if the same duty is run for several.
    """
    failures = 0
    while stop is None or not stop.is_set():
        if wake is not None:
            wake.clear()
        try:
            more = await step()
            raise_if_cancelled()
        except faults as error:
            raise_if_cancelled()
            failures += 1
            retry_in = delay(backoff, failures, 0.5).total_seconds() if backoff else every
            _log.log(
                logging.WARNING if isinstance(error, RETRIED_FAULTS) else logging.ERROR,
                "duty failed",
                duty=name,
                subject=subject,
                error=repr(error),
                retry_in_seconds=retry_in,
            )
            await pause(retry_in, stop)
        except Exception:
            _log.exception("duty crashed", duty=name, subject=subject)
            raise
        else:
            if failures:
                _log.info("duty recovered", duty=name, subject=subject, failures=failures)
            failures = 0
            await pause(0 if more else every, wake, stop)


def raise_if_cancelled() -> None:
    """Raise CancelledError if this task is being cancelled and something replaced or kept that exception."""
    if is_cancelled():
        raise asyncio.CancelledError


async def pause(seconds: float | None, *until: asyncio.Event | None) -> None:
    """Wait until one of the events is set, at most `seconds`; events that are None are ignored."""
    events = [event for event in until if event is not None]
    if seconds is not None and (not events or not seconds):
        await asyncio.sleep(seconds)
        return
    waiting = [asyncio.create_task(event.wait()) for event in events]
    try:
        await asyncio.wait(waiting, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in waiting:
            task.cancel()
