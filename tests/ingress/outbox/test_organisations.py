"""Outboxes that are bound to an organisation, and envelopes that name theirs."""

from typing import Any

import msgspec
import pytest

from tests.catalogs import shipped
from tests.ingress.outbox.outboxes import Shop, Tocsin
from tests.rows import add_user
from tocsin.engine.accept.answers import Unreadable
from tocsin.ingress.outbox.envelopes import reader
from tocsin.ingress.outbox.rows import Row
from tocsin.ingress.outbox.settings import OutboxSettings
from tocsin.store.pool import Pool

INTENT = {"type": "new_customer", "payload": {"customer_name": "Ada"}}
ENVELOPE = {"event_type": "new.customer", "title": "Hello", "recipients": ["ann"]}


def row(**fields: Any) -> Row:
    return Row(
        id=1,
        payload=msgspec.json.encode(fields).decode(),
        type=None,
        ordering_key=None,
        failed_attempts=0,
    )


@pytest.mark.parametrize(
    ("bound", "scoping", "named", "org_id"),
    [
        (None, False, "acme", None),
        (None, True, "acme", "acme"),
        (None, True, 7, "7"),
        (None, True, None, None),
        ("acme", True, "acme", "acme"),
        ("acme", True, None, "acme"),
        ("acme", True, "globex", None),
    ],
)
def test_the_organisation_of_an_envelope(
    bound: str | None, named: Any, org_id: str | None, *, scoping: bool
) -> None:
    settings = OutboxSettings(envelope="fisa", org_id=bound)
    given = ENVELOPE if named is None else ENVELOPE | {"org_id": named}

    read = reader(settings, shipped(), org_scoping=scoping)(row(**given))

    if bound is not None and named not in {None, bound}:
        assert isinstance(read, Unreadable)
        assert [(fault.field, fault.code) for fault in read.faults] == [("org_id", "not_your_organisation")]
        assert read.org_id == bound
    else:
        assert not isinstance(read, Unreadable)
        assert read.org_id == org_id


async def test_rows_of_a_bound_outbox_reach_its_organisation_alone(
    shop: Shop, tocsin: Tocsin, pool: Pool
) -> None:
    await add_user(pool, "ann", org_id="acme")
    await add_user(pool, "bob", org_id="globex")
    statement = "select tocsin_publish($1::jsonb)"
    for users, org_id in ((["ann"], None), (["ann", "bob"], None), (["bob"], "globex")):
        intent = INTENT | {"audience": {"users": users}} | ({"org_id": org_id} if org_id else {})
        await shop.connection.execute(statement, msgspec.json.encode(intent).decode())
    settings = OutboxSettings(url=shop.url, poll_seconds=0.02, org_id="acme")
    async with tocsin.relaying(settings):
        refused = [await shop.failed(row_id, 1) for row_id in (2, 3)]

    assert [each["org_id"] for each in await tocsin.notifications()] == ["acme"]
    assert ["not people of the organisation: bob" in each["last_error"] for each in refused] == [True, False]
    assert "org_id" in refused[1]["last_error"]
    recorded = await pool.fetch("select code, org_id from refused_intents")
    assert {tuple(each) for each in recorded} == {("not_your_organisation", "acme")}
