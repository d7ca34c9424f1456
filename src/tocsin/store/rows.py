"""Rows as structs: the fields of a struct are the columns of a statement, by name."""

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import msgspec

from tocsin.store.pool import Connection, Pool

T = TypeVar("T")


async def fetch_one(connection: Connection | Pool, row_type: type[T], statement: str, *args: Any) -> T | None:
    """Run a statement that returns at most one row."""
    row = await connection.fetchrow(statement, *args)
    return row_type(**row) if row else None


async def fetch_all(connection: Connection | Pool, row_type: type[T], statement: str, *args: Any) -> list[T]:
    """Run a statement and return all its rows."""
    return [row_type(**row) for row in await connection.fetch(statement, *args)]


def transpose(items: Iterable[object], names: Iterable[str]) -> list[list[Any]]:
    """Return a list for each name, with the values of all items, as `unnest` needs them."""
    items = list(items)
    return [[getattr(item, name) for item in items] for name in names]


def columns_of(row_type: type[msgspec.Struct], items: Sequence[msgspec.Struct]) -> dict[str, Sequence[Any]]:
    """Return the values of all structs of a type by field, as `unnest` needs them, at a third of the cost."""
    names = row_type.__struct_fields__
    if not items:
        return dict.fromkeys(names, ())
    return dict(zip(names, zip(*map(msgspec.structs.astuple, items), strict=True), strict=True))


def without_nulls(column: Sequence[Any]) -> Sequence[Any]:
    """Return a column, or an empty one if nothing in it is set: `unnest` fills it up with nulls.

    The driver takes as long for a null as for a value, and most of the optional columns are null.
    """
    is_set = bool(column) and (column[0] is not None or column.count(None) < len(column))
    return column if is_set else ()
