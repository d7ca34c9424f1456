"""The plan of a statement, as a worker's connection keeps it for every execution."""

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from tests.databases import SCHEMA
from tocsin.store.pool import Connection, PoolSettings, open_pool

Node = dict[str, Any]


@asynccontextmanager
async def worker_connection(database_url: str) -> AsyncIterator[Connection]:
    """Open a connection as the workers have it."""
    async with (
        open_pool(database_url, SCHEMA, PoolSettings(), lookups_only=True) as pool,
        pool.acquire() as connection,
    ):
        yield connection


async def keep_plan(connection: Connection, name: str, statement: str, *arguments: Any) -> None:
    """Prepare a statement under a name and have its generic plan made now."""
    await connection.execute("set plan_cache_mode = force_generic_plan")
    await connection.execute(f'prepare "{name}" as {statement}')
    await connection.execute(f'explain execute "{name}"{_written(arguments)}')


async def explain_kept(connection: Connection, name: str, *arguments: Any) -> list[Node]:
    """Execute a statement by its kept plan and return every node of that plan, with what it read."""
    text = await connection.fetchval(f'explain (analyze, format json) execute "{name}"{_written(arguments)}')
    return nodes(json.loads(text)[0]["Plan"])


def scans(plan: Sequence[Node], table: str = "deliveries") -> list[Node]:
    """Return the nodes that read a table."""
    return [node for node in plan if node.get("Relation Name") == table and "Scan" in node["Node Type"]]


def rows_read(plan: Sequence[Node], table: str = "deliveries") -> float:
    """Count the rows that were read of a table, including those that a filter removed."""
    read: list[float] = [
        (node["Actual Rows"] + node.get("Rows Removed by Filter", 0)) * node["Actual Loops"]
        for node in scans(plan, table)
    ]
    return sum(read)


def indexes(plan: Sequence[Node], table: str = "deliveries") -> set[str]:
    """Return the indexes by which a table was read; a scan without one counts as its own name."""
    return {str(node.get("Index Name", node["Node Type"])) for node in scans(plan, table)}


def nodes(plan: Node) -> list[Node]:
    """Return a node of a plan with all that are below it."""
    return [plan, *(node for inner in plan.get("Plans", ()) for node in nodes(inner))]


def _written(arguments: Sequence[Any]) -> str:
    return f"({', '.join(map(_literal, arguments))})" if arguments else ""


def _literal(argument: Any) -> str:
    if argument is None:
        return "null"
    if isinstance(argument, list):
        return "'{" + ",".join("null" if each is None else f'"{each}"' for each in argument) + "}'"
    return f"'{argument}'"
