import importlib
import pkgutil
import re

import asyncpg
import pytest

import tocsin.store
from tocsin.store.deliveries.claim import CLAIM, DELIVERY_COLUMNS, PROFILE_COLUMNS, TAKE_OVER
from tocsin.store.people.profiles import PROFILES
from tocsin.store.pool import Pool

STATEMENT = re.compile(r"\s*(select|with|insert|update|delete|explain)\b")


def statements() -> dict[str, str]:
    """Find every SQL text that a module of the store names as a constant."""
    found = {}
    for module_info in pkgutil.walk_packages(tocsin.store.__path__, "tocsin.store."):
        module = importlib.import_module(module_info.name)
        for name, value in vars(module).items():
            if name.isupper() and name[0] != "_" and isinstance(value, str) and STATEMENT.match(value):
                found[f"{module_info.name.removeprefix('tocsin.store.')}.{name}"] = value
    return found


STATEMENTS = statements()


def test_the_statements_are_found() -> None:
    assert {
        "deliveries.claim.CLAIM",
        "deliveries.digests.END_MEMBERS",
        "deliveries.expiry.EXPIRE_HELD",
        "deliveries.fan_out.FAN_OUT",
        "deliveries.settle.SETTLE_SENT",
        "deliveries.settle.SETTLE_UNSENT",
        "notifications.ACCEPT",
        "people.users.PUT",
        "sources.refused.RECORD",
    } <= set(STATEMENTS)


async def test_every_statement_can_be_prepared(pool: Pool) -> None:
    faults = {}
    async with pool.acquire() as connection:
        for name, statement in STATEMENTS.items():
            try:
                await connection.prepare(statement)
            except asyncpg.PostgresError as error:
                faults[name] = str(error)

    assert faults == {}


@pytest.mark.parametrize("statement", [CLAIM, TAKE_OVER, PROFILES])
async def test_the_columns_that_are_read_by_position_stand_there(pool: Pool, statement: str) -> None:
    async with pool.acquire() as connection:
        names = tuple(each.name for each in (await connection.prepare(statement)).get_attributes())

    assert names[-len(PROFILE_COLUMNS) :] == PROFILE_COLUMNS
    if statement is not PROFILES:
        assert names[: len(DELIVERY_COLUMNS) + 1] == (*DELIVERY_COLUMNS, "has_context")
