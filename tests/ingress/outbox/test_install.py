from pathlib import Path
from typing import Any

import asyncpg
import msgspec
import pytest

from tests.ingress.outbox.outboxes import Shop, intent
from tocsin.domain.intent import Intent
from tocsin.ingress.outbox.check import check
from tocsin.ingress.outbox.install import OutboxNameError, function_state, install, install_sql
from tocsin.ingress.outbox.settings import OutboxColumns, OutboxSettings


async def test_installing_twice_changes_nothing(shop: Shop) -> None:
    row_id = await shop.publish()

    await install(shop.connection, "public", "tocsin_outbox")

    assert [row["id"] for row in await shop.rows()] == [row_id]
    assert await function_state(shop.connection, "public", "tocsin_outbox") == "current"


async def test_it_can_live_in_a_schema_and_a_table_of_any_name(bare_shop: Shop) -> None:
    await bare_shop.connection.execute("create schema sales")
    await install(bare_shop.connection, "sales", "told")

    await bare_shop.connection.execute("set search_path = sales")
    row_id = await bare_shop.publish()

    assert await bare_shop.waiting("sales.told") == [row_id]
    settings = OutboxSettings(url=bare_shop.url, schema="sales", table="told")
    found = await check(bare_shop.connection, settings)
    assert (found.faults, found.hints) == ([], [])


@pytest.mark.parametrize(
    ("schema", "table"), [("Sales", "told"), ("sales", "told;"), ("s" * 40, "t" * 40), ("", "told")]
)
def test_a_name_that_would_need_care_is_refused(schema: str, table: str) -> None:
    with pytest.raises(OutboxNameError):
        install_sql(schema, table)


def test_the_documented_sql_is_what_is_installed() -> None:
    documented = Path(__file__).parents[3] / "docs" / "reference" / "outbox.sql"

    assert documented.read_text(encoding="utf-8") == install_sql()


def test_the_function_knows_every_field_of_an_intent() -> None:
    known = install_sql().partition("all (array[")[2].partition("]")[0]

    assert [name.strip(" '\n") for name in known.split(",")] == list(Intent.__struct_fields__)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (["a list"], "the intent must be a JSON object"),
        (intent(ttl=3), "an intent has no field ttl"),
        (intent(type=""), "type must be the name of a type"),
        (intent(type=None), "type must be the name of a type"),
        (intent(audience={}), "audience must name exactly one of"),
        (intent(audience=["ada"]), "audience must name exactly one of"),
        (intent(audience={"users": ["ada"], "topic": "news"}), "audience must name exactly one of"),
        (intent(audience={"user": ["ada"]}), "audience must name exactly one of"),
        (intent(audience={"users": []}), "at least one of the people"),
        (intent(audience={"users": "ada"}), "at least one of the people"),
        (intent(audience={"emails": None}), "at least one of the people"),
        (intent(payload=None), "payload must be a JSON object"),
        (intent(idempotency_key="17"), "must not be a bare number"),
    ],
    ids=str,
)
async def test_a_mistake_fails_where_it_was_made(shop: Shop, content: Any, message: str) -> None:
    with pytest.raises(asyncpg.InvalidParameterValueError, match=message):
        await shop.publish(content)

    assert await shop.rows() == []


async def test_an_aggregate_needs_an_id(shop: Shop) -> None:
    with pytest.raises(asyncpg.InvalidParameterValueError, match="aggregate 'order' was given without"):
        await shop.connection.fetchval(
            "select tocsin_publish($1::jsonb, 'order')", msgspec.json.encode(intent()).decode()
        )


async def test_check_names_everything_that_is_missing(bare_shop: Shop) -> None:
    await bare_shop.connection.execute("create table events (id uuid, payload text, failed_attempts integer)")
    settings = OutboxSettings(
        url=bare_shop.url,
        table="events",
        order="aggregate",
        envelope="fisa",
        columns=OutboxColumns(type="kind"),
    )

    found = await check(bare_shop.connection, settings)

    assert {fault.field for fault in found.faults} == {
        "columns.published_at",
        "columns.next_retry_at",
        "columns.last_error",
        "columns.type",
        "columns.aggregate_id",
    }


async def test_check_tells_of_a_missing_table_right_index_and_function(bare_shop: Shop) -> None:
    settings = OutboxSettings(url=bare_shop.url)
    missing = await check(bare_shop.connection, settings)
    await install(bare_shop.connection, "public", "tocsin_outbox")
    await bare_shop.connection.execute("drop index tocsin_outbox_waiting, tocsin_outbox_retrying")
    await bare_shop.connection.execute("drop function tocsin_publish")
    slow = await check(bare_shop.connection, settings)

    assert [fault.code for fault in missing.faults] == ["missing"]
    assert slow.faults == []
    assert [hint.partition(" ")[0] for hint in slow.hints] == ["No", "The"]


async def test_the_function_says_when_it_is_of_another_version(shop: Shop) -> None:
    source = install_sql().replace("at least one of the people", "somebody")
    await shop.connection.execute(source)

    assert await function_state(shop.connection, "public", "tocsin_outbox") == "outdated"
