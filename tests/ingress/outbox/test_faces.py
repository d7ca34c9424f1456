"""The same words by every driver: kept with the transaction, gone with it."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qs, urlsplit

import asyncpg
import django
import msgspec
import psycopg
import pytest
import sqlalchemy
from django.conf import settings as django_settings
from django.db import NotSupportedError, connections, transaction
from django.db.utils import DataError
from psycopg.rows import dict_row
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from tests.databases import fresh_database
from tests.ingress.outbox.outboxes import Shop
from tocsin.client.outbox import Particulars
from tocsin.client.outbox import asyncpg as by_asyncpg
from tocsin.client.outbox import django as by_django
from tocsin.client.outbox import psycopg as by_psycopg
from tocsin.client.outbox import sqlalchemy as by_sqlalchemy
from tocsin.domain.intent import Intent
from tocsin.ingress.outbox.install import install

SAID: Particulars = {
    "users": ["ada", 7],
    "payload": {"customer_name": "Ali Veli", "share": "100 % of :it"},
    "version": 2,
    "send_at": datetime(2026, 3, 1, 12, tzinfo=UTC),
    "ttl_seconds": 60,
    "trace_id": None,
    "aggregate": "order",
    "aggregate_id": "17",
}
WRITTEN = {
    "type": "new_customer",
    "audience": {"users": ["ada", 7]},
    "payload": {"customer_name": "Ali Veli", "share": "100 % of :it"},
    "version": 2,
    "send_at": "2026-03-01T12:00:00Z",
    "ttl_seconds": 60,
}


async def _written(shop: Shop) -> list[tuple[int, Any, str | None, str | None]]:
    return [
        (row["id"], msgspec.json.decode(row["intent"]), row["aggregate"], row["aggregate_id"])
        for row in await shop.rows()
    ]


async def test_asyncpg(shop: Shop) -> None:
    connection = shop.connection
    # As applications do that want their documents as objects.
    await connection.set_type_codec(
        "jsonb", schema="pg_catalog", encoder=lambda value: msgspec.json.encode(value).decode(), decoder=str
    )
    leaving = connection.transaction()
    await leaving.start()
    await by_asyncpg.publish(connection, "new_customer", **SAID)
    await leaving.rollback()
    async with connection.transaction():
        made = await by_asyncpg.publish(connection, "new_customer", **SAID)

    assert await _written(shop) == [(made, WRITTEN, "order", "17")]


async def test_asyncpg_says_what_is_wrong(shop: Shop) -> None:
    with pytest.raises(asyncpg.InvalidParameterValueError, match="audience must name exactly one"):
        await by_asyncpg.publish(shop.connection, "new_customer", payload={})


async def test_a_function_of_another_schema_can_be_named(shop: Shop) -> None:
    await shop.connection.execute("create schema sales")
    await install(shop.connection, "sales", "told")

    await by_asyncpg.publish(
        shop.connection, "new_customer", users=["ada"], payload={}, function="sales.tocsin_publish"
    )

    assert len(await shop.rows("sales.told")) == 1


async def test_psycopg(shop: Shop) -> None:
    def work() -> int:
        with psycopg.connect(shop.url, row_factory=dict_row) as connection:
            by_psycopg.publish(connection, "new_customer", **SAID)
            connection.rollback()
            return by_psycopg.publish(connection, "new_customer", **SAID)

    made = await asyncio.to_thread(work)

    assert await _written(shop) == [(made, WRITTEN, "order", "17")]


async def test_psycopg_async(shop: Shop) -> None:
    async with await psycopg.AsyncConnection.connect(shop.url) as connection:
        await by_psycopg.publish_async(connection, "new_customer", **SAID)
        await connection.rollback()
        made = await by_psycopg.publish_async(connection, "new_customer", **SAID)
        with pytest.raises(psycopg.errors.InvalidParameterValue, match="audience must name exactly one"):
            async with connection.transaction():
                await by_psycopg.publish_async(connection, "new_customer", payload={})

    assert await _written(shop) == [(made, WRITTEN, "order", "17")]


@pytest.mark.parametrize("kind", ["session", "connection"])
async def test_sqlalchemy(shop: Shop, kind: str) -> None:
    def work() -> int:
        engine = sqlalchemy.create_engine(_by(shop.url, "psycopg"))
        with Session(engine) if kind == "session" else engine.connect() as session:
            by_sqlalchemy.publish(session, "new_customer", **SAID)
            session.rollback()
            made = by_sqlalchemy.publish(session, "new_customer", **SAID)
            session.commit()
            with pytest.raises(DBAPIError, match="audience must name exactly one"):
                by_sqlalchemy.publish(session, "new_customer", payload={})
        engine.dispose()
        return made

    made = await asyncio.to_thread(work)

    assert await _written(shop) == [(made, WRITTEN, "order", "17")]


@pytest.mark.parametrize("kind", ["session", "connection"])
@pytest.mark.parametrize("driver", ["asyncpg", "psycopg"])
async def test_sqlalchemy_async(shop: Shop, kind: str, driver: str) -> None:
    engine = create_async_engine(_by(shop.url, driver))
    async with AsyncSession(engine) if kind == "session" else engine.connect() as session:
        await by_sqlalchemy.publish_async(session, "new_customer", **SAID)
        await session.rollback()
        made = await by_sqlalchemy.publish_async(session, "new_customer", **SAID)
        await session.commit()
    await engine.dispose()

    assert await _written(shop) == [(made, WRITTEN, "order", "17")]


@pytest.fixture(scope="module")
async def django_shop(server_url: str) -> AsyncIterator[str]:
    """Give the address of the database that Django is set up for, once a process."""
    async with fresh_database(server_url) as url:
        connection = await asyncpg.connect(url)
        await install(connection, "public", "tocsin_outbox")
        await connection.close()
        there = urlsplit(url)
        django_settings.configure(
            DATABASES={
                "default": {
                    "ENGINE": "django.db.backends.postgresql",
                    "NAME": there.path.lstrip("/"),
                    "USER": there.username,
                    "PASSWORD": there.password,
                    "HOST": parse_qs(there.query).get("host", [there.hostname])[0],
                    "PORT": there.port or "",
                },
                "other": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"},
            }
        )
        django.setup()
        yield url


@contextmanager
def _closing() -> Iterator[None]:
    try:
        yield
    finally:
        connections.close_all()


def test_django(django_shop: str) -> None:
    with _closing(), psycopg.connect(django_shop) as looking:
        with transaction.atomic():
            by_django.publish("new_customer", **SAID)
            transaction.set_rollback(True)
        with transaction.atomic():
            made = by_django.publish("new_customer", **SAID)
            assert looking.execute("select from tocsin_outbox").fetchall() == []
        with pytest.raises(DataError, match="audience must name exactly one"), transaction.atomic():
            by_django.publish("new_customer", payload={})
        written = looking.execute("select id, intent, aggregate, aggregate_id from tocsin_outbox").fetchall()

    assert written == [(made, WRITTEN, "order", "17")]


@pytest.mark.usefixtures("django_shop")
def test_django_needs_postgres() -> None:
    with _closing(), pytest.raises(NotSupportedError, match="'other' is sqlite"):
        by_django.publish("new_customer", using="other", users=["ada"], payload={})


def test_every_field_of_an_intent_can_be_said() -> None:
    said = Particulars.__annotations__.keys() - {"aggregate", "aggregate_id", "function"}
    audiences = {"users", "emails", "admins", "topic", "condition", "attributes"}

    assert said - audiences == set(Intent.__struct_fields__) - {"type", "audience"}


def _by(url: str, driver: str) -> str:
    return url.replace("postgresql://", f"postgresql+{driver}://", 1)
