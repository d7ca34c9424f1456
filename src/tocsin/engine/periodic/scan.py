"""Scans: rows of an application's database, read in order from the checkpoint on."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

import asyncpg
import msgspec

from tocsin.domain.errors import TocsinError
from tocsin.domain.timing.schedule import Schedule, ValueType, read_value
from tocsin.engine.periodic.row import IntentPattern
from tocsin.engine.periodic.source import Moved, Step
from tocsin.periodic import Checkpoint
from tocsin.store.pool import CONNECTING_FAILED

CONNECT_TIMEOUT = 10.0
_TYPES: dict[ValueType, type] = {"timestamptz": datetime, "bigint": int, "text": str, "uuid": UUID}


class ScanError(TocsinError):
    """A scan cannot go on; its text says what to change."""


class ScanSource(msgspec.Struct, frozen=True, kw_only=True):
    """A query whose rows become intents."""

    name: str
    producer: str
    schedule: Schedule
    database: str
    url: str
    statement: str
    column: str
    value_type: ValueType
    initial: Any
    pattern: IntentPattern
    batch: int
    statement_timeout: float

    kind: Literal["scan"] = "scan"

    def __repr__(self) -> str:
        """Name it; never show the address, which may hold a password."""
        return f"ScanSource({self.name})"

    async def steps(self, checkpoint: Checkpoint) -> AsyncGenerator[Step]:
        """Read the rows after the checkpoint, a batch in memory at a time.

        A value is moved to only when a row with another one follows, or none: rows that share a value
        are never parted by a crash.
        """
        held: Step | None = None
        at: Any = None
        last = read_value(checkpoint.value, self.value_type)
        async with self._rows(last) as rows:
            async for row in rows:
                value = self._checkpoint(row, at)
                if held is not None:
                    yield held if value == at else held._replace(moved=Moved(msgspec.to_builtins(at)))
                held, at = Step(self.pattern.intent(row)), value
        if held is not None:
            yield held._replace(moved=Moved(msgspec.to_builtins(at)))

    @asynccontextmanager
    async def _rows(self, last: Any) -> AsyncIterator[AsyncIterator[Any]]:
        connection = await self._connect()
        try:
            async with connection.transaction(isolation="repeatable_read", readonly=True):
                milliseconds = str(int(self.statement_timeout * 1_000))
                await connection.execute(
                    "select set_config('statement_timeout', $1, true), set_config('timezone', 'UTC', true)",
                    milliseconds,
                )
                prepared = await connection.prepare(self.statement)
                self._check_columns({attribute.name for attribute in prepared.get_attributes()})
                yield prepared.cursor(last, prefetch=self.batch)
        except asyncpg.QueryCanceledError as error:
            raise ScanError(
                f"the query took longer than {self.statement_timeout:g} s (statement_timeout_seconds); "
                f"is {self.column!r} indexed?"
            ) from error
        finally:
            connection.terminate()

    async def _connect(self) -> asyncpg.Connection:
        try:
            # Without a cache of statements, so that it works through a pooler of transactions too.
            connection = await asyncpg.connect(self.url, timeout=CONNECT_TIMEOUT, statement_cache_size=0)
        except CONNECTING_FAILED as error:
            said = str(error).replace(self.url, "…")
            raise ScanError(
                f"the database {self.database} does not answer ({type(error).__name__}: {said})"
            ) from None
        for kind in ("json", "jsonb"):
            await connection.set_type_codec(
                kind, encoder=str, decoder=msgspec.json.decode, schema="pg_catalog"
            )
        return connection

    def _check_columns(self, given: set[str]) -> None:
        needed = self.pattern.columns | {self.column}
        if missing := sorted(needed - given):
            raise ScanError(
                f"the query gives no column {', '.join(missing)}; it gives {', '.join(sorted(given))}"
            )

    def _checkpoint(self, row: Any, before: Any) -> Any:
        value = row[self.column]
        if not isinstance(value, _TYPES[self.value_type]) or isinstance(value, bool):
            kind = "null" if value is None else type(value).__name__
            raise ScanError(f"column {self.column} gave {kind}; a checkpoint must be {self.value_type}")
        if isinstance(value, datetime) and value.tzinfo is None:
            raise ScanError(
                f"column {self.column} has no time zone; select it as "
                f"{self.column} at time zone 'UTC' as {self.column}, and compare that with :last"
            )
        # How a database sorts texts is its own affair.
        if before is not None and self.value_type != "text" and value < before:
            raise ScanError(f"the rows do not come in order; end the query with: order by {self.column}")
        return value
