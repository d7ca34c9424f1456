import asyncio
from uuid import uuid4

import pytest

from tests.edges.edge import Edge, faults, person
from tocsin.api.auth.api_keys import REMEMBERED_SECONDS, TOUCHED_SECONDS, KeyRing, create_key
from tocsin.api.auth.roles import RIGHTS, Right, Role
from tocsin.engine.clock import utc_now
from tocsin.store import keys
from tocsin.store.pool import Pool

CALLS: dict[tuple[str, str], Right] = {
    ("POST", "/v1/notifications"): Right.ACCEPT,
    ("POST", "/v1/notifications/batch"): Right.ACCEPT,
    ("GET", f"/v1/notifications/{uuid4()}"): Right.SEE_OWN,
    ("GET", "/v1/notifications"): Right.SEE_OWN,
    ("GET", "/v1/admin/queue"): Right.SEE_ALL,
    ("GET", "/v1/admin/scheduled"): Right.SEE_ALL,
    ("GET", "/v1/users/ada"): Right.SEE_USERS,
    ("PUT", "/v1/users/ada"): Right.CHANGE_USERS,
    ("PUT", "/v1/users"): Right.CHANGE_USERS,
    ("GET", "/v1/admin/refused"): Right.SEE_REFUSED,
    ("GET", "/v1/admin/keys"): Right.KEYS,
    ("POST", "/v1/admin/keys"): Right.KEYS,
    ("DELETE", f"/v1/admin/keys/{uuid4()}"): Right.KEYS,
}


class Time:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize("role", Role)
async def test_each_role_may_do_what_its_table_says_and_no_more(edge: Edge, role: Role) -> None:
    headers = await edge.key(role)

    for (method, path), right in CALLS.items():
        answer = await edge.http.request(method, path, headers=headers)
        assert (answer.status_code == 403) is (right not in RIGHTS[role]), (method, path)
        assert answer.status_code != 401
        if answer.status_code == 403:
            assert answer.json()["code"] == "not_allowed"


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer tocsin_" + "a" * 43},
        {"Authorization": "Bearer nonsense"},
        {"X-API-Key": "tocsin_short"},
        {"X-API-Key": ""},
    ],
)
async def test_without_a_good_key_every_call_is_closed(edge: Edge, headers: dict[str, str]) -> None:
    for method, path in CALLS:
        answer = await edge.http.request(method, path, headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (401, "unauthenticated")
        assert answer.headers["www-authenticate"].startswith("Bearer")


async def test_a_key_may_come_in_its_own_header(edge: Edge) -> None:
    secret = (await edge.key(Role.ADMIN))["Authorization"].removeprefix("Bearer ")

    assert (await edge.http.get("/v1/admin/keys", headers={"X-API-Key": secret})).status_code == 200


async def test_an_admin_makes_lists_and_revokes_keys(edge: Edge) -> None:
    admin = await edge.key(Role.ADMIN)

    made = await edge.http.post("/v1/admin/keys", json={"producer": "crm", "role": "producer"}, headers=admin)

    assert made.status_code == 201
    secret = made.json()["key"]
    assert secret.startswith("tocsin_")
    assert secret.endswith(made.json()["hint"])
    listed = await edge.http.get("/v1/admin/keys", headers=admin)
    assert [key["producer"] for key in listed.json()["keys"]] == ["crm", "billing"]
    assert secret not in listed.text
    assert "key" not in listed.json()["keys"][0]
    stored = await edge.pool.fetch("select * from api_keys")
    assert secret not in str(stored)

    revoked = await edge.http.delete(f"/v1/admin/keys/{made.json()['key_id']}", headers=admin)
    assert revoked.json()["revoked_at"] is not None
    unused = await edge.http.get("/v1/users/ada", headers={"Authorization": f"Bearer {secret}"})
    assert unused.status_code == 401


async def test_unknown_keys_cannot_be_revoked(edge: Edge) -> None:
    admin = await edge.key(Role.ADMIN)

    for key_id in (str(uuid4()), "nonsense"):
        assert (await edge.http.delete(f"/v1/admin/keys/{key_id}", headers=admin)).status_code == 404


async def test_a_key_needs_a_plain_name_and_a_known_role(edge: Edge) -> None:
    answer = await edge.http.post(
        "/v1/admin/keys", json={"producer": "a b", "role": "king"}, headers=await edge.key(Role.ADMIN)
    )

    assert faults(answer) == {"producer": "invalid", "role": "invalid"}


async def test_a_revoked_key_stops_working_within_five_seconds(pool: Pool) -> None:
    time = Time()
    ring = KeyRing(pool, utc_now, time)
    made = await create_key(pool, "billing", Role.PRODUCER, utc_now())
    assert await ring.holder(made.secret)
    await keys.revoke(pool, made.row.id, utc_now())

    assert REMEMBERED_SECONDS < 5
    time.now += REMEMBERED_SECONDS
    assert await ring.holder(made.secret) is None
    await ring.aclose()


async def test_a_new_key_works_although_it_was_tried_before_it_was_made(pool: Pool) -> None:
    time = Time()
    ring = KeyRing(pool, utc_now, time)
    made = await create_key(pool, "billing", Role.PRODUCER, utc_now())
    await pool.execute("update api_keys set revoked_at = now()")
    assert await ring.holder(made.secret) is None
    await pool.execute("update api_keys set revoked_at = null")

    time.now += REMEMBERED_SECONDS
    assert await ring.holder(made.secret)
    await ring.aclose()


async def test_use_is_noted_at_most_once_a_minute(pool: Pool) -> None:
    time = Time()
    ring = KeyRing(pool, utc_now, time)
    made = await create_key(pool, "billing", Role.PRODUCER, utc_now())

    async def last_used() -> object:
        await asyncio.gather(*(ring.holder(made.secret) for _ in range(20)))
        await ring.aclose()
        return await pool.fetchval("select last_used_at from api_keys")

    first = await last_used()
    assert first is not None
    time.now += TOUCHED_SECONDS - 1
    assert await last_used() == first
    time.now += 1
    assert await last_used() != first


async def test_a_secret_does_not_show(pool: Pool) -> None:
    made = await create_key(pool, "billing", Role.PRODUCER, utc_now())

    assert made.secret not in repr(made)


async def test_a_token_sent_as_an_api_key_is_told_apart(edge: Edge) -> None:
    for headers in (person("ada"), {"X-API-Key": person("ada")["Authorization"].removeprefix("Bearer ")}):
        answer = await edge.http.get("/v1/users/ada", headers=headers)

        assert answer.status_code == 401
        assert "a person's token (JWT) was sent" in answer.json()["detail"]
