from typing import Any

import pytest

from tests.edges.edge import Edge, faults
from tests.rows import NOW
from tocsin.api.auth.roles import Role
from tocsin.domain.ids import uuid7
from tocsin.store.health.provider_health import Alarm, raise_alarms

PATH = "/v1/admin/alarms"


async def sound(edge: Edge, *codes: str) -> None:
    async with edge.pool.acquire() as connection:
        for code in codes:
            await raise_alarms(connection, {Alarm("fcm", code, "key revoked"): 2}, NOW)


async def listed(edge: Edge, **query: Any) -> dict[str, Any]:
    answer = await edge.http.get(PATH, params=query, headers=await edge.key(Role.VIEWER))
    assert answer.status_code == 200
    page: dict[str, Any] = answer.json()
    return page


async def test_without_alarms_the_list_is_empty(edge: Edge) -> None:
    assert await listed(edge) == {"alarms": [], "next": None}


async def test_an_alarm_is_listed_until_it_is_cleared(edge: Edge) -> None:
    operator = await edge.key(Role.OPERATOR, "night-shift")
    key_id = await edge.pool.fetchval("select id from api_keys")
    await sound(edge, "UNAUTHENTICATED")
    (alarm,) = (await listed(edge))["alarms"]
    alarm_id = alarm["alarm_id"]
    assert alarm == {
        "alarm_id": alarm_id,
        "provider": "fcm",
        "code": "UNAUTHENTICATED",
        "detail": "key revoked",
        "raised_at": "2026-03-01T12:00:00Z",
        "last_at": "2026-03-01T12:00:00Z",
        "count": 2,
        "cleared_at": None,
        "cleared_by": None,
    }

    cleared = await edge.http.post(f"{PATH}/{alarm_id}/clear", headers=operator)

    assert cleared.status_code == 200
    assert cleared.json()["cleared_by"] == f"night-shift (key {key_id})"
    assert cleared.json()["cleared_at"] is not None
    assert (await listed(edge))["alarms"] == []
    assert (await listed(edge, cleared="true"))["alarms"] == [cleared.json()]


async def test_what_does_not_stand_cannot_be_cleared(edge: Edge) -> None:
    operator = await edge.key(Role.OPERATOR)
    await sound(edge, "UNAUTHENTICATED")
    (alarm,) = (await listed(edge))["alarms"]
    await edge.http.post(f"{PATH}/{alarm['alarm_id']}/clear", headers=operator)

    for alarm_id in (alarm["alarm_id"], uuid7(), "not-an-id"):
        answer = await edge.http.post(f"{PATH}/{alarm_id}/clear", headers=operator)
        assert (answer.status_code, answer.json()["code"]) == (404, "not_found")


async def test_alarms_are_read_in_pages(edge: Edge) -> None:
    await sound(edge, "a", "b", "c")

    first = await listed(edge, limit=2)
    second = await listed(edge, limit=2, before=first["next"])

    assert [alarm["code"] for alarm in first["alarms"] + second["alarms"]] == ["c", "b", "a"]
    assert second["next"] is None


async def test_a_wrong_query_is_refused_with_every_fault(edge: Edge) -> None:
    query = {"cleared": "perhaps", "before": "x", "limit": "101", "provider": "fcm"}
    answer = await edge.http.get(PATH, params=query, headers=await edge.key(Role.VIEWER))

    assert answer.status_code == 422
    assert faults(answer) == {
        "cleared": "invalid",
        "before": "invalid",
        "limit": "invalid",
        "provider": "unknown",
    }


@pytest.mark.parametrize(
    ("role", "sees", "clears"),
    [(Role.PRODUCER, 403, 403), (Role.VIEWER, 200, 403), (Role.OPERATOR, 200, 200), (Role.ADMIN, 200, 200)],
)
async def test_who_may_see_and_who_may_clear(edge: Edge, role: Role, sees: int, clears: int) -> None:
    await sound(edge, "UNAUTHENTICATED")
    headers = await edge.key(role)
    alarm_id = await edge.pool.fetchval("select id from alarms")

    assert (await edge.http.get(PATH, headers=headers)).status_code == sees
    assert (await edge.http.post(f"{PATH}/{alarm_id}/clear", headers=headers)).status_code == clears
    assert (await edge.http.post(f"{PATH}/{alarm_id}/clear")).status_code == 401
