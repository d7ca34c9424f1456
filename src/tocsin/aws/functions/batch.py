"""Delivers the records of an event: in order within a group, groups side by side, each failure by itself."""

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from contextlib import ExitStack
from functools import partial
from traceback import extract_tb
from typing import Any, NamedTuple, TypeAlias

from tocsin.aws.functions.logs import FunctionLog, log_fields
from tocsin.aws.functions.records import Record, read_event
from tocsin.aws.functions.results import BatchFailedError, NeverDeliveredError, RetryLaterError

RESERVED_SECONDS = 20.0
"""With less time left, no further record is begun: an invocation that is cut off repeats them all."""

CALL_SECONDS = 16.0
"""As long as a call of SNS or of Tocsin may take with its retry: with less time left, none is begun."""

SecondsLeft: TypeAlias = Callable[[], float]
"""Returns how long it is until Lambda cuts off the invocation."""

Deliver: TypeAlias = Callable[[Record, SecondsLeft], None]
"""Delivers one record, or raises RetryLaterError or NeverDeliveredError."""

_log = FunctionLog(__name__)


class Runner(NamedTuple):
    """What every invocation of a process uses: how a record is delivered, and the threads of groups.

    Lambda ends a process without a word; a process that goes on without the function closes `exits`.
    """

    deliver: Deliver
    groups: Executor
    exits: ExitStack

    def run(self, event: object, context: Any) -> dict[str, Any]:
        """Deliver the records of an event."""
        return deliver_batch(event, context, self.deliver, self.groups)


def deliver_batch(event: object, context: Any, deliver: Deliver, executor: Executor) -> dict[str, Any]:
    """Deliver every record; return those that failed as Lambda expects it of a queue.

    For an event of a topic, which has no such answer, raise BatchFailedError.
    """
    batch = read_event(event)
    orders: dict[str, list[Record]] = {}
    for record in batch.records:
        orders.setdefault(record.order, []).append(record)
    left = partial(_seconds_left, context)
    results = executor.map(lambda records: _deliver_in_order(records, left, deliver), orders.values())
    failed = {record.id for failures in results for record in failures}
    if failed and not batch.is_queue:
        raise BatchFailedError(f"{len(failed)} of {len(batch.records)} messages were not delivered")
    return {
        "batchItemFailures": [
            {"itemIdentifier": record.id} for record in batch.records if record.id in failed
        ]
    }


def _deliver_in_order(records: Sequence[Record], left: SecondsLeft, deliver: Deliver) -> list[Record]:
    """Deliver the records of one group; return those that failed or were not begun.

    After a failure that a retry may mend, the rest of the group waits for it. One that can never be delivered
    holds up nobody: each record that waits is received once more, and would follow it to the dead letters.
    """
    failed: list[Record] = []
    for place, record in enumerate(records):
        with log_fields(message_id=record.id):
            waiting = len(records) - place - 1
            if left() < RESERVED_SECONDS:
                _log.warning("time used up", waiting=waiting or None)
                return [*failed, *records[place:]]
            try:
                deliver(record, left)
            except NeverDeliveredError as error:
                _log.error("message undeliverable", code=error.code, detail=error.detail)
                failed.append(record)
            except RetryLaterError as error:
                _log.warning("message failed", code=error.code, waiting=waiting or None)
                return [*failed, *records[place:]]
            except Exception as error:  # noqa: BLE001 - whatever one record raises must not reach other groups
                _log.error("message broke the function", error=type(error).__name__, at=_place(error))
                return [*failed, *records[place:]]
    return failed


def _place(error: Exception) -> str | None:
    """Return the file and line that raised: the text of an error may hold what must not be logged."""
    frames = extract_tb(error.__traceback__)
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else None


def _seconds_left(context: Any) -> float:
    remaining = getattr(context, "get_remaining_time_in_millis", None)
    return float("inf") if remaining is None else remaining() / 1_000
