"""Periodic producers that are bound to an organisation."""

import sys
from collections.abc import AsyncIterator
from types import ModuleType
from typing import Any

import pytest

from tests.engine.periodic.feeds import MINUTE
from tests.engine.periodic.stage import PeriodicStage, a_source, numbered
from tests.rows import add_user
from tocsin.domain.faults import Fault
from tocsin.domain.intent import Audience
from tocsin.engine.periodic.python import import_producers
from tocsin.periodic import Checkpoint, Yielded, periodic


async def test_what_a_bound_producer_yields_reaches_its_organisation_alone(
    periodic: PeriodicStage,
) -> None:
    await add_user(periodic.pool, "ann", org_id="acme")
    await add_user(periodic.pool, "bob", org_id="globex")

    async def feed(_: Checkpoint) -> AsyncIterator[Yielded]:
        yield numbered(1, audience=Audience(users=["ann"])), 1
        yield numbered(2, audience=Audience(users=["bob"])), 2
        yield numbered(3, audience=Audience(users=["bob"]), org_id="globex"), 3

    source = a_source(feed, org_id="acme")
    await periodic.register(source)
    periodic.clock.advance(15 * MINUTE)
    assert await periodic.perform(source)

    assert await periodic.keys() == ["number-1"]
    row = await periodic.progress()
    assert (row.accepted, row.refused, row.last_value) == (1, 2, 3)
    assert await periodic.pool.fetchval("select org_id from notifications") == "acme"


@pytest.mark.parametrize("org_id", ["", "line\nbreak", 7])
def test_an_organisation_that_is_none_is_a_fault(org_id: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async def feed(_: Checkpoint) -> AsyncIterator[Yielded]:
        yield numbered(1)

    module = ModuleType("bound_feeds")
    module.__dict__["feed"] = periodic("* * * * *", org_id=org_id)(feed)
    monkeypatch.setitem(sys.modules, "bound_feeds", module)
    faults: list[Fault] = []
    import_producers(["bound_feeds"], faults)

    assert [fault.code for fault in faults] == ["org_id"]
