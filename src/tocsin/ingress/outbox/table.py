"""An outbox as it was found in the application's database: which columns it has, and its SQL."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from tocsin.domain.errors import FaultsError
from tocsin.domain.faults import Fault
from tocsin.ingress.outbox.settings import OutboxSettings
from tocsin.store.pool import Connection

LARGEST_TEXT = 1_000_000

_COUNTING = frozenset({"smallint", "integer", "bigint"})
_PAYLOADS = {"intent": "intent", "fisa": "payload"}
_USUAL = {
    "type": "event_type",
    "aggregate": "aggregate",
    "aggregate_id": "aggregate_id",
    "created_at": "created_at",
}
_NEEDED = ("id", "published_at", "failed_attempts", "next_retry_at", "last_error")

COLUMNS = """
select attname, format_type(atttypid, null)
from pg_attribute
where attrelid = to_regclass($1) and attnum > 0 and not attisdropped
"""

# What is held back comes as a list and not as a join, which would sort the whole backlog to keep its order.
TAKE = """
select {id}, left(coalesce({payload}::text, ''), {cut}), {kind}, coalesce({failed_attempts}, 0), {key}
from {table}
where {published_at} is null
    and ({next_retry_at} is null or {next_retry_at} <= $1::timestamptz)
    and ({key} is null or {key} <> all($3::text[]))
order by {order}
limit $2
for update skip locked
"""

HELD_BACK = """
select distinct {key}
from {table}
where {published_at} is null and {next_retry_at} > $1::timestamptz and {key} is not null
"""

PUBLISH = """
update {table}
set {published_at} = $2::timestamptz, {last_error} = null
where {id} = any($1)
"""

FAIL = """
update {table}
set {failed_attempts} = $2, {next_retry_at} = $3::timestamptz, {last_error} = $4
where {id} = $1
"""

PRUNE = """
delete from {table}
where ctid = any(array(
    select ctid
    from {table}
    where {published_at} < $1::timestamptz
    limit $2
    for update skip locked
))
"""

STATUS = """
select
    count(*) as waiting,
    {oldest} as oldest,
    count(*) filter (where {failed_attempts} > 0) as failed,
    count(*) filter (where {failed_attempts} >= $1) as alarming
from {table}
where {published_at} is null
"""


class OutboxUnfitError(FaultsError):
    """The table is not what the settings say."""


class Row(NamedTuple):
    """One row that waits; rows with the same ordering key follow each other."""

    id: Any
    payload: str
    type: str | None
    failed_attempts: int
    ordering_key: str | None


class Table(msgspec.Struct, frozen=True):
    """The statements for one outbox, written for the columns it has."""

    name: str
    take: str
    held_back: str
    publish: str
    fail: str
    prune: str
    status: str


async def inspect(connection: Connection, settings: OutboxSettings) -> Table:
    """Look at the table and write its statements, or raise with everything that is missing."""
    name = f"{quoted(settings.schema)}.{quoted(settings.table)}"
    there = dict(map(tuple, await connection.fetch(COLUMNS, name)))
    columns, faults = _resolved(settings, there)
    if not faults:
        return _table(name, columns, there)
    raise OutboxUnfitError(f"The outbox {settings.schema}.{settings.table} cannot be used:", faults)


def quoted(identifier: str) -> str:
    """Write a name so that it stands for itself in SQL."""
    doubled = identifier.replace('"', '""')
    return f'"{doubled}"'


def _resolved(settings: OutboxSettings, there: Mapping[str, str]) -> tuple[dict[str, str], list[Fault]]:
    """Find the columns by what they mean; one that is not needed and not there is left out."""
    if not there:
        message = "is not there, or its schema may not be used; `tocsin outbox install` makes it"
        return {}, [Fault(field="table", code="missing", message=message)]
    given = settings.columns
    columns = {meaning: getattr(given, meaning) for meaning in _NEEDED}
    columns["payload"] = given.payload or _PAYLOADS[settings.envelope]
    for meaning, usual in _USUAL.items():
        column = getattr(given, meaning) or (usual if usual in there else None)
        if column is not None:
            columns[meaning] = column
    faults = [
        Fault(field=f"columns.{meaning}", code="missing", message=f"there is no column {column}")
        for meaning, column in columns.items()
        if column not in there
    ]
    if settings.order == "aggregate" and "aggregate_id" not in columns:
        message = "is needed to keep order by aggregate"
        faults.append(Fault(field="columns.aggregate_id", code="missing", message=message))
    if settings.order == "aggregate" and not faults and not _is_timely(columns, there):
        message = f"is needed to keep order: {columns['id']} is no number that grows"
        faults.append(Fault(field="columns.created_at", code="missing", message=message))
    return columns, faults


def _is_timely(columns: Mapping[str, str], there: Mapping[str, str]) -> bool:
    return "created_at" in columns or there[columns["id"]] in _COUNTING


def _table(name: str, columns: Mapping[str, str], there: Mapping[str, str]) -> Table:
    words = {meaning: quoted(column) for meaning, column in columns.items()}
    by_time = there[columns["id"]] not in _COUNTING and "created_at" in words
    words["table"] = name
    words["cut"] = str(LARGEST_TEXT + 1)
    words["order"] = "{created_at}, {id}".format_map(words) if by_time else words["id"]
    words["key"] = _ordering_key(words)
    words["kind"] = f"{words['type']}::text" if "type" in words else "null::text"
    words["oldest"] = (
        f"min({words['created_at']}::timestamptz)" if "created_at" in words else "null::timestamptz"
    )
    return Table(
        name=name,
        take=TAKE.format_map(words),
        held_back=HELD_BACK.format_map(words),
        publish=PUBLISH.format_map(words),
        fail=FAIL.format_map(words),
        prune=PRUNE.format_map(words),
        status=STATUS.format_map(words),
    )


def _ordering_key(words: Mapping[str, str]) -> str:
    if "aggregate_id" not in words:
        return "null::text"
    kind = f"coalesce({words['aggregate']}::text, '')" if "aggregate" in words else "''"
    return f"{kind} || chr(31) || {words['aggregate_id']}::text"
