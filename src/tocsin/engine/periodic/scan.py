"""Scans: rows of an application's database, read in order from the checkpoint on."""

import re
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any
from uuid import UUID

import asyncpg
import msgspec

from tocsin.domain.errors import TocsinError
from tocsin.domain.timing.schedule import ValueType, read_value
from tocsin.engine.periodic.row import IntentPattern
from tocsin.engine.periodic.source import Source, SourceStep
from tocsin.periodic import Checkpoint
from tocsin.store.pool import CONNECTING_FAILED, checked_url, describe_failure
from tocsin.store.sources.progress import ProgressKind

CONNECT_TIMEOUT = 10.0
# Quoted text, comments and operators may hold a colon that is no placeholder: matched first and kept.
_TOKENS = re.compile(
    r"""
      (?P<skipped>
          \b[eE]'(?:\\.|''|[^'\\])*'
        | '(?:''|[^'])*'
        | "(?:""|[^"])*"
        | --[^\n]*
        | /\*.*?\*/
        | \$(?P<tag>\w*)\$.*?\$(?P=tag)\$
        | ::
        | :=
      )
    | (?P<number>\$\d+)
    | :(?P<name>[A-Za-z_]\w*)
    """,
    re.VERBOSE | re.DOTALL,
)
_TYPES: dict[ValueType, type] = {"timestamptz": datetime, "bigint": int, "text": str, "uuid": UUID}


class ScanError(TocsinError):
    """A scan cannot run; the text says what to change."""


class ScanSource(Source, frozen=True, kw_only=True):
    """A query whose rows become intents."""

    kind: ProgressKind = "scan"
    value_type: ValueType
    database: str
    url: str
    statement: str
    column: str
    pattern: IntentPattern
    statement_timeout: float

    def __repr__(self) -> str:
        """Show the name, not the address, which may hold a password."""
        return f"ScanSource({self.name})"

    async def steps(self, checkpoint: Checkpoint) -> AsyncGenerator[SourceStep]:
        """Read the rows after the checkpoint, a batch in memory at a time.

        The checkpoint moves to a value only after the last row that has it, so that a crash never skips
        rows that share a value.
        """
        held: SourceStep | None = None
        at: Any = None
        last = read_value(checkpoint.value, self.value_type)
        async with self._rows(last) as rows:
            async for row in rows:
                value = self._checkpoint(row, at)
                if held is not None:
                    yield held if value == at else held._replace(checkpoint=msgspec.to_builtins(at))
                held, at = SourceStep(self.pattern.intent(row)), value
        if held is not None:
            yield held._replace(checkpoint=msgspec.to_builtins(at))

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
            # Without a statement cache it works through a transaction pooler such as PgBouncer, too.
            url = checked_url(self.url)
            connection = await asyncpg.connect(url, timeout=CONNECT_TIMEOUT, statement_cache_size=0)
        except CONNECTING_FAILED as error:
            raise ScanError(
                f"the database {self.database} does not answer ({describe_failure(error)})"
            ) from None
        for name in ("json", "jsonb"):
            await connection.set_type_codec(
                name, encoder=str, decoder=msgspec.json.decode, schema="pg_catalog"
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
            found = "null" if value is None else type(value).__name__
            raise ScanError(f"column {self.column} gave {found}; a checkpoint must be {self.value_type}")
        if isinstance(value, datetime) and value.tzinfo is None:
            raise ScanError(
                f"column {self.column} has no time zone; select it as "
                f"{self.column} at time zone 'UTC' as {self.column}, and compare that with :last"
            )
        # The order of texts depends on the collation of the database.
        if before is not None and self.value_type != "text" and value < before:
            raise ScanError(f"the rows do not come in order; end the query with: order by {self.column}")
        return value


def bind_last(query: str, value_type: ValueType) -> str:
    """Replace `:last` in a query by a bind parameter, or raise ValueError with what is wrong with it."""
    bound = 0

    def replaced(token: re.Match[str]) -> str:
        nonlocal bound
        if token["skipped"]:
            return token[0]
        if token["number"]:
            raise ValueError(f"holds {token[0]}; the only placeholder is :last")
        if token["name"] != "last":
            raise ValueError(f"holds :{token['name']}; the only placeholder is :last")
        bound += 1
        return f"$1::{value_type}"

    statement = _TOKENS.sub(replaced, query.strip().rstrip(";"))
    if not bound:
        raise ValueError("does not use :last, so every run would read every row; compare it with the column")
    return statement
