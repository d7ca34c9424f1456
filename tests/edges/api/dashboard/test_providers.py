"""The page of providers: their health, pausing, resuming and trying one."""

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from tests.edges.api.dashboard.visits import signed_in
from tests.edges.edge import Edge, running, services
from tocsin.api.auth.roles import Role
from tocsin.engine.clock import utc_now
from tocsin.engine.health.provider_health import ProviderInUse
from tocsin.store.health.circuit_breakers import Opening, open_circuit
from tocsin.store.pool import Pool
from tocsin.store.toggles import history

PATH = "/dashboard/providers"
IN_USE = (
    ProviderInUse(name="fcm", channel="push", rate=600),
    ProviderInUse(name="webhook", channel="webhook"),
)
HOSTILE = "<script>alert(1)</script>\"'"


@pytest.fixture
async def edge(pool: Pool) -> AsyncIterator[Edge]:
    async with running(services(pool, providers=IN_USE)) as opened:
        yield opened


async def trip(edge: Edge, name: str, detail: str) -> None:
    opening = Opening(
        name=name,
        provider=name.partition("/")[0],
        code="UNAVAILABLE",
        detail=detail,
        after=timedelta(),
        rest=timedelta(minutes=5),
        longest=timedelta(hours=1),
    )
    async with edge.pool.acquire() as connection:
        await open_circuit(connection, opening, utc_now())


async def test_a_provider_is_paused_and_resumed_with_a_reason(edge: Edge) -> None:
    visit = await signed_in(edge, Role.OPERATOR)

    answer = await visit.post(f"{PATH}/fcm/pause", reason=HOSTILE)

    assert (answer.status_code, answer.headers["location"]) == (303, f"{PATH}/fcm")
    shown = await visit.shown(f"{PATH}/fcm")
    assert "fcm is paused; its deliveries wait." in shown
    assert "Resume fcm" in shown
    assert "<script>alert" not in shown
    assert "&lt;script&gt;alert(1)" in shown
    await visit.post(f"{PATH}/fcm/resume")
    assert "Pause fcm" in await visit.shown(f"{PATH}/fcm")
    changes = await history(edge.pool, "provider:fcm")
    assert [(change.enabled, change.reason) for change in changes] == [(True, None), (False, HOSTILE)]
    assert all(change.changed_by.startswith("console (key ") for change in changes)


async def test_an_open_circuit_breaker_is_shown_and_tried_at_once(edge: Edge) -> None:
    await trip(edge, "webhook/<b>.example.org", HOSTILE)
    visit = await signed_in(edge, Role.OPERATOR)

    listed, shown = await visit.shown(f"{PATH}/live"), await visit.shown(f"{PATH}/webhook")

    assert 'data-kind="open"' in listed
    assert "webhook/&lt;b&gt;.example.org" in shown
    assert "<script>alert" not in shown
    await visit.post(f"{PATH}/webhook/try")
    rest = "select retry_at <= now() from circuits where provider = 'webhook'"
    assert await edge.pool.fetchval(rest)


async def test_a_viewer_sees_providers_and_no_forms(edge: Edge) -> None:
    visit = await signed_in(edge, Role.VIEWER)

    shown = await visit.shown(f"{PATH}/fcm")

    assert f"{PATH}/fcm/" not in shown
    for action in ("pause", "resume", "try"):
        assert (await visit.post(f"{PATH}/fcm/{action}")).status_code == 403
    assert await history(edge.pool) == []


async def test_an_unknown_provider_is_not_found(edge: Edge) -> None:
    visit = await signed_in(edge, Role.OPERATOR)

    for answer in (await visit.get(f"{PATH}/apns"), await visit.post(f"{PATH}/apns/pause")):
        assert (answer.status_code, "in use are fcm, webhook" in answer.text) == (404, True)
