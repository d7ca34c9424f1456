"""Isolates the messages of a batch from each other: an unexpected exception is the outcome of one message."""

import asyncio
import traceback
from collections.abc import Awaitable, Callable, Sequence
from uuid import uuid4

import structlog

from tocsin.domain.delivery.message import Message
from tocsin.domain.delivery.outcome import Outcome, Rejected

INTERNAL_ERROR = "internal_error"

_log = structlog.stdlib.get_logger(__name__)


async def send_each(
    provider: str,
    batch: Sequence[Message],
    send_one: Callable[[Message], Awaitable[Outcome]],
    expected: Callable[[Exception], Outcome | None] = lambda _: None,
) -> Sequence[Outcome]:
    """Send the messages of a batch concurrently and return one outcome for each, in order.

    `expected` returns the outcome that an exception means, or None for one that nobody expects.
    """
    if len(batch) != 1:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(send_each(provider, [each], send_one, expected)) for each in batch]
        return [outcome for task in tasks for outcome in task.result()]
    (message,) = batch
    try:
        return [await send_one(message)]
    except asyncio.CancelledError as error:
        # One that nobody asked of this task comes from within, as from a library that gave up a future.
        if is_cancelled():
            raise
        return [internal_error(provider, message, error)]
    except Exception as error:  # noqa: BLE001 - whatever one message raises must not reach the others
        return [expected(error) or internal_error(provider, message, error)]


def is_cancelled() -> bool:
    """Return whether somebody cancels this task: a cancellation may also come from what it awaits."""
    # The task stays out of the frame above: its exception refers to that frame, and a cycle would hold
    # connections until the garbage collector runs.
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def internal_error(provider: str, message: Message, error: BaseException) -> Rejected:
    """Log an unexpected exception and return the outcome of the message that raised it.

    The outcome is final: the same code would raise again, and the provider, which may have accepted the
    message before, is not to blame. The text of an exception may quote a token or an address, so only its
    type and where it was raised are recorded, under a correlation id that the outcome has too.
    """
    correlation_id = uuid4().hex
    kind = type(error).__name__
    _log.error(
        "message failed",
        provider=provider,
        delivery_id=str(message.delivery_id),
        type=message.type,
        error=kind,
        correlation_id=correlation_id,
        raised_at="".join(traceback.format_tb(error.__traceback__)),
        alarm=True,
    )
    return Rejected(INTERNAL_ERROR, f"{kind}; correlation id {correlation_id}", alarm=True)
