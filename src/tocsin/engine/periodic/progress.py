"""Periodic producers for operators: list them, request a run, set a checkpoint."""

from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, Literal, TypeAlias

import msgspec

from tocsin.domain.timing.schedule import read_value
from tocsin.store import audit
from tocsin.store.pool import Connection
from tocsin.store.sources import progress
from tocsin.store.sources.progress import ProgressKind, ProgressRow

UNKNOWN_AFTER = timedelta(minutes=11)
_LONGEST_RECORDED = 200

ProgressState: TypeAlias = Literal["idle", "running", "failed", "interrupted", "unknown"]


class ProgressRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The progress of a periodic producer.

    It is `interrupted` when its worker died during a run that another one will claim, and `unknown`
    when no worker has been able to run it for some minutes. `late_seconds` is for how long it is overdue.
    """

    name: str
    kind: ProgressKind
    state: ProgressState
    schedule: str
    timezone: str
    catch_up: str
    checkpoint: Any
    next_run_at: datetime
    run_requested: bool
    late_seconds: float
    last_run_at: datetime | None
    last_success_at: datetime | None
    failures: int
    last_error: str | None
    note: str | None
    accepted: int
    duplicates: int
    refused: int


_SAME = set(ProgressRecord.__struct_fields__) & set(ProgressRow.__struct_fields__) - {"next_run_at"}


class UnknownProducerError(Exception):
    """There is no producer of that name; the text lists those there are."""


class WrongCheckpointError(Exception):
    """A checkpoint is not of the type of the producer; the text says what it must be."""


async def list_records(connection: Connection, now: datetime) -> list[ProgressRecord]:
    """List every producer, by name."""
    return [progress_record(row, now) for row in await progress.list_progress(connection)]


async def request_run(connection: Connection, name: str, now: datetime) -> ProgressRecord:
    """Request a run now; a worker starts it within about a second."""
    row = await _find(connection, name)
    await progress.request_run(connection, row.name, now)
    return progress_record(await _find(connection, name), now)


async def rewind(connection: Connection, name: str, to: Any, now: datetime, *, actor: str) -> ProgressRecord:
    """Set the checkpoint and record it in the audit.

    The next run continues from there, and a run under way ends.
    """
    row = await _find(connection, name)
    if row.kind == "upkeep":
        raise WrongCheckpointError(f"{name} is upkeep of Tocsin itself and has no checkpoint to set")
    value = to
    if row.value_type is not None:
        try:
            value = msgspec.to_builtins(read_value(to, row.value_type))
        except ValueError as error:
            raise WrongCheckpointError(str(error)) from error
    async with connection.transaction():
        await progress.rewind(connection, name, value)
        await audit.record(
            connection,
            actor=actor,
            action="progress.rewind",
            subject=f"progress:{name}",
            details={"to": msgspec.json.encode(value, enc_hook=str).decode()[:_LONGEST_RECORDED]},
        )
    return progress_record(await _find(connection, name), now)


async def rewind_to_text(
    connection: Connection, name: str, text: str, now: datetime, *, actor: str
) -> ProgressRecord:
    """Set a checkpoint that was typed by hand: JSON, unless the producer has a type for its checkpoints."""
    row = await _find(connection, name)
    value: Any = text
    if row.value_type is None:
        with suppress(msgspec.DecodeError):
            value = msgspec.json.decode(text)
    return await rewind(connection, name, value, now, actor=actor)


async def _find(connection: Connection, name: str) -> ProgressRow:
    rows = {row.name: row for row in await progress.list_progress(connection)}
    if name not in rows:
        known = ", ".join(rows) or "none: a worker registers them when it starts"
        raise UnknownProducerError(f"There is no periodic producer {name!r}; there are {known}.")
    return rows[name]


def progress_record(row: ProgressRow, now: datetime) -> ProgressRecord:
    """Build the record of a producer at a time."""
    state, next_run_at = _state(row, now), row.retry_at or row.next_run_at
    late = 0.0 if state == "running" else max(0.0, (now - next_run_at).total_seconds())
    return ProgressRecord(
        state=state,
        checkpoint=row.last_value,
        next_run_at=next_run_at,
        late_seconds=round(late, 3),
        run_requested=row.run_requested_at is not None,
        **{name: getattr(row, name) for name in _SAME},
    )


def _state(row: ProgressRow, now: datetime) -> ProgressState:
    if now - row.seen_at > UNKNOWN_AFTER:
        return "unknown"
    if row.status == "running" and (row.leased_until is None or row.leased_until <= now):
        return "interrupted"
    return row.status
