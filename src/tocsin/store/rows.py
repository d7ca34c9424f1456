"""Rows as structs: the fields of a struct are the columns of a statement, by name."""

from collections.abc import Iterable
from typing import Any, TypeVar

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
