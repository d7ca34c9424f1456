from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import httpx
import pytest

from tests.edges.edge import Edge, faults, running, services
from tests.rows import NOW, add_delivery, add_outcomes, add_waiting
from tocsin.api.auth.roles import Role
from tocsin.engine.health.provider_health import ProviderInUse
from tocsin.engine.toggles.toggles import Toggles
from tocsin.store.health.circuit_breakers import Opening, close_circuit, open_circuit, take_probe
from tocsin.store.health.provider_health import Alarm, Counted, raise_alarms
from tocsin.store.pool import Pool
from tocsin.store.toggles import history

PATH = "/v1/admin/providers"
SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
IN_USE = (
    ProviderInUse(name="fcm", channel="push"),
    ProviderInUse(name="expo", channel="push", rate=600),
    ProviderInUse(name="webhook", channel="webhook"),
)


@pytest.fixture
async def edge(pool: Pool) -> AsyncIterator[Edge]:
    """Return an edge whose clock is at half past a minute."""
    async with running(services(pool, providers=IN_USE, clock=lambda: NOW + 30 * SECOND)) as opened:
        yield opened


async def shown(edge: Edge, role: Role = Role.VIEWER) -> dict[str, Any]:
    answer = await edge.http.get(PATH, headers=await edge.key(role))
    assert answer.status_code == 200
    return {provider["name"]: provider for provider in answer.json()["providers"]}


async def trip(edge: Edge, name: str, **changes: Any) -> None:
    given: dict[str, Any] = {
        "code": "UNAVAILABLE",
        "detail": "overloaded",
        "after": timedelta(),
        "rest": 5 * SECOND,
        "longest": MINUTE,
    }
    opening = Opening(name=name, provider=name.partition("/")[0], **given | changes)
    async with edge.pool.acquire() as connection:
        await open_circuit(connection, opening, NOW)


async def call(edge: Edge, path: str, headers: dict[str, str], body: Any = None) -> httpx.Response:
    return await edge.http.post(f"{PATH}/{path}", headers=headers, json=body)


async def test_providers_without_trouble_are_closed_and_hold_nothing(edge: Edge) -> None:
    providers = await shown(edge)

    assert list(providers) == ["fcm", "expo", "webhook"]
    assert providers["expo"] == {
        "name": "expo",
        "channel": "push",
        "state": "closed",
        "since": None,
        "retry_at": None,
        "code": None,
        "detail": None,
        "paused": None,
        "circuits": [],
        "circuits_in_trouble": 0,
        "rate": {"limit": 600, "sent_per_second": 0, "attempts_last_minute": 0},
        "outcomes": [],
        "waiting": {"count": 0, "or_more": False},
        "alarms": [],
        "in_flight": 0,
    }
    assert providers["fcm"]["rate"]["limit"] is None


async def test_an_open_circuit_is_shown_with_its_cause_and_when_it_is_tried_next(edge: Edge) -> None:
    await trip(edge, "fcm")

    fcm = (await shown(edge))["fcm"]

    expected = {
        "state": "open",
        "since": "2026-03-01T12:00:00Z",
        "retry_at": "2026-03-01T12:00:05Z",
        "code": "UNAVAILABLE",
        "detail": "overloaded",
    }
    assert {field: fcm[field] for field in expected} == expected
    assert fcm["circuits"] == [{"name": "fcm", "openings": 1, **expected}]

    async with edge.pool.acquire() as connection:
        assert await take_probe(connection, "fcm", NOW + 5 * SECOND, NOW + 65 * SECOND)
    half_open = (await shown(edge))["fcm"]
    assert (half_open["state"], half_open["retry_at"]) == ("half_open", "2026-03-01T12:01:05Z")

    async with edge.pool.acquire() as connection:
        await close_circuit(connection, "fcm", NOW + 6 * SECOND)
    assert (await shown(edge))["fcm"]["state"] == "closed"


async def test_a_provider_with_hosts_is_as_bad_as_the_worst_of_them(edge: Edge) -> None:
    for number in range(52):
        await trip(edge, f"webhook/{number:02}.example")
    async with edge.pool.acquire() as connection:
        await take_probe(connection, "webhook/00.example", NOW + MINUTE, NOW + 2 * MINUTE)

    webhook = (await shown(edge))["webhook"]

    assert (webhook["state"], webhook["circuits_in_trouble"]) == ("open", 52)
    assert [circuit["name"] for circuit in webhook["circuits"]] == [
        f"webhook/{number:02}.example" for number in range(1, 51)
    ]
    async with edge.pool.acquire() as connection:
        for number in range(1, 52):
            await close_circuit(connection, f"webhook/{number:02}.example", NOW)
    assert (await shown(edge))["webhook"]["state"] == "half_open"


async def test_the_rate_is_that_of_the_last_sixty_seconds(edge: Edge) -> None:
    sent, busy = Counted("fcm", "sent", ""), Counted("fcm", "retry", "UNAVAILABLE")
    async with edge.pool.acquire() as connection:
        await add_outcomes(connection, {sent: 60, busy: 20}, NOW + 10 * SECOND)
        await add_outcomes(connection, {sent: 120}, NOW - SECOND)
        await add_outcomes(connection, {sent: 100_000}, NOW - 70 * SECOND)

    fcm = (await shown(edge))["fcm"]

    assert fcm["rate"] == {"limit": None, "sent_per_second": 2.0, "attempts_last_minute": 140}


async def test_the_mix_of_outcomes_covers_five_minutes(edge: Edge) -> None:
    sent, busy = Counted("fcm", "sent", ""), Counted("fcm", "retry", "UNAVAILABLE")
    async with edge.pool.acquire() as connection:
        await add_outcomes(connection, {sent: 50, busy: 100}, NOW)
        await add_outcomes(connection, {busy: 50, Counted("expo", "gone", "X"): 1}, NOW - 5 * MINUTE)
        await add_outcomes(connection, {busy: 1_000}, NOW - 6 * MINUTE)

    providers = await shown(edge)

    assert providers["fcm"]["outcomes"] == [
        {"outcome": "retry", "code": "UNAVAILABLE", "count": 150, "share": 0.75},
        {"outcome": "sent", "code": "", "count": 50, "share": 0.25},
    ]
    assert providers["expo"]["outcomes"] == [{"outcome": "gone", "code": "X", "count": 1, "share": 1}]


async def test_what_is_due_in_a_lane_or_held_for_its_hosts_is_counted(edge: Edge) -> None:
    later = held = NOW + timedelta(days=40_000)
    for lane, due_at, holder in (
        *(("fcm", NOW, None), ("fcm", NOW, None), ("fcm", later, None), ("fcm", held, "type:new_customer")),
        *(("webhook", held, "host:webhook/a.example"), ("webhook", held, "host:webhook/b.example")),
        *(("webhook", NOW, None), ("webhooks", held, "host:webhooks/a.example"), ("fanout", NOW, None)),
    ):
        await add_delivery(edge.pool, lane=lane, due_at=due_at, held_by=holder)

    providers = await shown(edge)

    assert {name: provider["waiting"]["count"] for name, provider in providers.items()} == {
        "fcm": 2,
        "expo": 0,
        "webhook": 3,
    }


async def test_counting_what_waits_ends_at_ten_thousand(edge: Edge) -> None:
    await add_waiting(edge.pool, 10_000)
    assert (await shown(edge))["fcm"]["waiting"] == {"count": 10_000, "or_more": False}

    await add_delivery(edge.pool)

    assert (await shown(edge))["fcm"]["waiting"] == {"count": 10_000, "or_more": True}


async def test_standing_alarms_are_shown_with_their_provider(edge: Edge) -> None:
    async with edge.pool.acquire() as connection:
        await raise_alarms(connection, {Alarm("expo", "InvalidCredentials", "no key"): 3}, NOW)

    providers = await shown(edge)

    (alarm,) = providers["expo"]["alarms"]
    assert (alarm["code"], alarm["detail"], alarm["count"]) == ("InvalidCredentials", "no key", 3)
    assert providers["fcm"]["alarms"] == []


async def test_an_operator_pauses_and_resumes_a_provider(edge: Edge) -> None:
    operator = await edge.key(Role.OPERATOR, "night-shift")
    key_id = await edge.pool.fetchval("select id from api_keys")
    await trip(edge, "fcm")
    toggles = Toggles()

    paused = await call(edge, "fcm/pause", operator, {"reason": "outage at Google"})

    assert paused.status_code == 200
    fcm = paused.json()
    assert fcm == (await shown(edge))["fcm"]
    assert (fcm["state"], fcm["since"], fcm["code"]) == ("paused", "2026-03-01T12:00:30Z", "UNAVAILABLE")
    assert fcm["paused"] == {
        "by": f"night-shift (key {key_id})",
        "at": "2026-03-01T12:00:30Z",
        "reason": "outage at Google",
    }
    await toggles.load(edge.pool)
    assert not toggles.provider_on("fcm")
    assert toggles.provider_on("expo")

    resumed = await call(edge, "fcm/resume", operator)

    assert (resumed.status_code, resumed.json()["state"], resumed.json()["paused"]) == (200, "open", None)
    await toggles.load(edge.pool)
    assert toggles.provider_on("fcm")
    toggles.close()
    changes = await history(edge.pool, "provider:fcm")
    assert [(change.enabled, change.reason) for change in changes] == [
        (True, None),
        (False, "outage at Google"),
    ]


async def test_every_open_circuit_of_a_provider_is_tried_when_an_operator_says_so(edge: Edge) -> None:
    for name in ("webhook/a.example", "webhook/b.example", "fcm"):
        await trip(edge, name, after=60 * MINUTE)

    answer = await call(edge, "webhook/try", await edge.key(Role.OPERATOR))

    assert answer.status_code == 200
    providers = await shown(edge)
    assert answer.json() == providers["webhook"]
    assert {circuit["retry_at"] for circuit in answer.json()["circuits"]} == {"2026-03-01T12:00:30Z"}
    assert providers["fcm"]["retry_at"] == "2026-03-01T13:00:00Z"
    async with edge.pool.acquire() as connection:
        assert await take_probe(connection, "webhook/b.example", NOW + 30 * SECOND, NOW + MINUTE)
        assert not await take_probe(connection, "fcm", NOW + 30 * SECOND, NOW + MINUTE)


async def test_a_provider_in_use_is_tried_without_effect(edge: Edge) -> None:
    answer = await call(edge, "expo/try", await edge.key(Role.OPERATOR))

    assert (answer.status_code, answer.json()["state"], answer.json()["circuits"]) == (200, "closed", [])


@pytest.mark.parametrize("action", ["pause", "resume", "try"])
async def test_a_provider_that_is_not_in_use_is_told_with_those_that_are(edge: Edge, action: str) -> None:
    answer = await call(edge, f"apns/{action}", await edge.key(Role.OPERATOR))

    assert (answer.status_code, answer.json()["code"]) == (404, "unknown_provider")
    assert answer.json()["detail"] == "There is no provider 'apns' in use; in use are fcm, expo, webhook."
    assert await edge.pool.fetchval("select count(*) from toggles") == 0


@pytest.mark.parametrize(
    ("body", "wrong"),
    [
        ({"reason": " "}, {"reason": "invalid"}),
        ({"reason": "a\nb"}, {"reason": "invalid"}),
        ({"reason": "x" * 501}, {"reason": "invalid"}),
        ({"because": "x"}, {"because": "unknown"}),
    ],
)
async def test_a_wrong_body_pauses_nothing(edge: Edge, body: Any, wrong: dict[str, str]) -> None:
    answer = await call(edge, "fcm/pause", await edge.key(Role.OPERATOR), body)

    assert (answer.status_code, faults(answer)) == (422, wrong)
    assert await edge.pool.fetchval("select count(*) from toggles") == 0


@pytest.mark.parametrize(
    ("role", "sees", "pauses"),
    [(Role.PRODUCER, 403, 403), (Role.VIEWER, 200, 403), (Role.OPERATOR, 200, 200), (Role.ADMIN, 200, 200)],
)
async def test_who_may_see_and_who_may_act(edge: Edge, role: Role, sees: int, pauses: int) -> None:
    headers = await edge.key(role)

    assert (await edge.http.get(PATH, headers=headers)).status_code == sees
    assert (await call(edge, "fcm/pause", headers)).status_code == pauses
    assert (await call(edge, "fcm/resume", headers)).status_code == pauses
    assert (await call(edge, "fcm/try", headers)).status_code == pauses
    assert (await edge.http.get(PATH)).status_code == 401
