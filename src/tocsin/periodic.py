"""Periodic producers in Python: an async generator that runs by a schedule, from its checkpoint on.

@periodic("*/15 * * * *", timezone="Europe/Istanbul")
async def new_customers(checkpoint: Checkpoint) -> AsyncIterator[Yielded]:
    since = checkpoint.read(int, default=0)
    async for customer in customers_after(since):
        yield intent_for(customer), customer.id
"""

import inspect
from collections.abc import AsyncIterator, Callable
from datetime import datetime
from typing import Any, TypeAlias, TypeVar

import msgspec

from tocsin.domain.intent import Audience, Intent
from tocsin.domain.timing.schedule import CatchUp, Schedule

__all__ = ["Audience", "Checkpoint", "Intent", "Periodic", "Yielded", "periodic"]

T = TypeVar("T")

Yielded: TypeAlias = Intent | tuple[Intent | None, Any]
"""An intent, or an intent and the checkpoint to move to once it is accepted.

None in the place of the intent moves the checkpoint alone.
"""


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True):
    """Where a run starts.

    `value` is the checkpoint that was yielded last, as JSON; None before the first run. `scheduled_for` is
    the time of the schedule that this run is for.
    """

    value: Any
    scheduled_for: datetime
    last_success_at: datetime | None = None

    def read(self, type_: type[T], default: T) -> T:
        """Return the value as a type, such as datetime; the default before the first run."""
        return default if self.value is None else msgspec.convert(self.value, type_, strict=False)


Body: TypeAlias = Callable[[Checkpoint], AsyncIterator[Yielded]]


class Periodic(msgspec.Struct, frozen=True, kw_only=True):
    """A generator with its schedule; calling it runs the generator, as a test of it does."""

    name: str
    producer: str
    schedule: Schedule
    timeout_seconds: float
    body: Body
    org_id: str | None = None

    def __call__(self, checkpoint: Checkpoint) -> AsyncIterator[Yielded]:
        """Run the generator."""
        return self.body(checkpoint)


def periodic(
    cron: str,
    *,
    name: str | None = None,
    producer: str | None = None,
    timezone: str = "UTC",
    catch_up: CatchUp = "last",
    timeout_seconds: float = 600.0,
    org_id: str | None = None,
) -> Callable[[Body], Periodic]:
    """Run an async generator of intents by a cron schedule.

    The checkpoint is stored under the name, which is that of the function unless given; the producer, which
    owns the idempotency keys of the intents, is the name unless given. `timeout_seconds` is the longest wait
    for one intent. With `org_id`, all of the intents are for people of that organisation.
    """

    def declare(body: Body) -> Periodic:
        if not inspect.isasyncgenfunction(body):
            raise TypeError(f"{body!r} must be an async generator: `async def` with `yield`")
        named = name or body.__name__
        return Periodic(
            name=named,
            producer=producer or named,
            schedule=Schedule(cron, timezone, catch_up),
            timeout_seconds=timeout_seconds,
            body=body,
            org_id=org_id,
        )

    return declare
