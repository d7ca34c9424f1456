import asyncio
from datetime import datetime, timedelta
from uuid import uuid4

import pytest

from tests.edges.edge import Edge, faults, person
from tocsin.api.auth.api_keys import (
    REMEMBERED_SECONDS,
    TOUCHED_SECONDS,
    KeyRing,
    RotatedKey,
    create_key,
    rotate_key,
)
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
    ("POST", f"/v1/admin/keys/{uuid4()}/rotate"): Right.KEYS,
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


async def test_a_rotated_key_works_until_its_overlap_ends_and_is_revoked_with_the_new_one(edge: Edge) -> None:
    admin = await edge.key(Role.ADMIN, "ops")
    old = await edge.key(Role.PRODUCER)
    asked = await edge.pool.fetchval("select clock_timestamp()")

    rotated = await edge.http.post(
        "/v1/admin/keys/billing/rotate", json={"overlap_seconds": 3_600}, headers=admin
    )

    assert rotated.status_code == 201
    created, replaced = rotated.json()["created"], rotated.json()["replaced"]
    new = {"Authorization": f"Bearer {created['key']}"}
    assert (created["producer"], created["role"]) == ("billing", "producer")
    assert replaced["replaced_by"] == created["key_id"]
    assert 3_600 <= (datetime.fromisoformat(replaced["expires_at"]) - asked).total_seconds() < 3_660
    assert "key" not in replaced
    for headers in (old, new):
        assert (await edge.http.get("/v1/users/ada", headers=headers)).status_code == 404
    listed = (await edge.http.get("/v1/admin/keys", headers=admin)).json()["keys"]
    ends = {key["key_id"]: key.get("expires_at") for key in listed}
    assert (ends[created["key_id"]], ends[replaced["key_id"]]) == (None, replaced["expires_at"])

    revoked = await edge.http.delete(f"/v1/admin/keys/{created['key_id']}", headers=admin)
    assert revoked.status_code == 200
    dead = await edge.pool.fetchval("select count(*) from api_keys where revoked_at is not null")
    assert dead == 2
    recorded = (await edge.http.get("/v1/admin/audit?subject=key:billing", headers=admin)).json()["entries"]
    assert [entry["action"] for entry in recorded] == ["key.revoke", "key.rotate"]
    assert recorded[1]["actor"].startswith("ops (key ")
    assert recorded[1]["details"]["replaces"] == replaced["key_id"]
    assert created["key"] not in str(recorded)


async def test_a_key_is_rotated_by_its_id_where_a_producer_has_several(edge: Edge) -> None:
    admin = await edge.key(Role.ADMIN)
    await edge.key(Role.PRODUCER)

    ambiguous = await edge.http.post("/v1/admin/keys/billing/rotate", headers=admin)
    [viewer, admins] = (await edge.http.get("/v1/admin/keys", headers=admin)).json()["keys"]
    by_id = await edge.http.post(f"/v1/admin/keys/{viewer['key_id']}/rotate", headers=admin)
    again = await edge.http.post(f"/v1/admin/keys/{viewer['key_id']}/rotate", headers=admin)

    assert faults(ambiguous) == {"key": "ambiguous"}
    assert viewer["key_id"] in ambiguous.json()["detail"]
    assert admins["key_id"] in ambiguous.json()["detail"]
    assert by_id.status_code == 201
    # It has been replaced: rotating it again would make a third key beside the second.
    assert again.status_code == 404


@pytest.mark.parametrize(
    ("name", "body", "status"),
    [
        ("nobody", {}, 404),
        ("a%20b", {}, 404),
        ("billing", {"overlap_seconds": -1}, 422),
        ("billing", {"overlap_seconds": 366 * 86_400}, 422),
        ("billing", {"overlap": 1}, 422),
    ],
)
async def test_what_cannot_be_rotated_changes_nothing(
    edge: Edge, name: str, body: dict[str, int], status: int
) -> None:
    admin = await edge.key(Role.ADMIN)

    answer = await edge.http.post(f"/v1/admin/keys/{name}/rotate", json=body, headers=admin)

    assert answer.status_code == status
    assert await edge.pool.fetchval("select count(*) from api_keys") == 1


async def test_a_cached_key_ends_with_its_overlap_by_the_clock_of_the_database(pool: Pool) -> None:
    time = Time()
    ring = KeyRing(pool, utc_now, time)
    made = await create_key(pool, "billing", Role.PRODUCER, utc_now())
    async with pool.acquire() as connection:
        rotated = await rotate_key(connection, "billing", timedelta(hours=1), utc_now(), actor="test")
    assert rotated is not None
    await pool.execute(
        "update api_keys set expires_at = clock_timestamp() + interval '1 s' where replaced_by is not null"
    )
    assert await ring.holder(made.secret)
    await pool.execute("update api_keys set expires_at = clock_timestamp() where replaced_by is not null")

    time.now += 1
    assert await ring.holder(made.secret) is None
    assert await ring.holder(rotated.made.secret)
    await ring.aclose()


async def test_without_an_overlap_the_old_key_ends_at_once(pool: Pool) -> None:
    made = await create_key(pool, "billing", Role.PRODUCER, utc_now())
    async with pool.acquire() as connection:
        rotated = await rotate_key(connection, str(made.row.id), timedelta(), utc_now(), actor="test")

    ring = KeyRing(pool, utc_now)
    assert rotated is not None
    assert rotated.replaced.revoked_at is not None
    assert await ring.holder(made.secret) is None
    assert await ring.holder(rotated.made.secret)
    await ring.aclose()


async def test_a_key_that_was_replaced_earlier_ends_with_the_next_rotation(pool: Pool) -> None:
    async def rotate(overlap: timedelta) -> RotatedKey:
        async with pool.acquire() as connection:
            rotated = await rotate_key(connection, "billing", overlap, utc_now(), actor="test")
        assert rotated is not None
        return rotated

    first = await create_key(pool, "billing", Role.PRODUCER, utc_now())
    second = await rotate(timedelta(days=7))
    third = await rotate(timedelta(hours=1))
    listed = await pool.fetch("select id, expires_at from api_keys where expires_at is not null")
    ends = {row["id"]: row["expires_at"] for row in listed}
    assert set(ends) == {first.row.id, second.made.row.id}
    assert abs(ends[first.row.id] - ends[second.made.row.id]) < timedelta(seconds=1)

    # A key leaked: no other than the newest is to work.
    fourth = await rotate(timedelta())
    ring = KeyRing(pool, utc_now)
    for secret in (first.secret, second.made.secret, third.made.secret):
        assert await ring.holder(secret) is None
    assert await ring.holder(fourth.made.secret)
    await ring.aclose()


async def test_rotations_at_the_same_time_make_one_key_each_from_the_current_one(pool: Pool) -> None:
    await create_key(pool, "billing", Role.PRODUCER, utc_now())

    async def rotate() -> bool:
        async with pool.acquire() as connection:
            return (
                await rotate_key(connection, "billing", timedelta(hours=1), utc_now(), actor="test")
                is not None
            )

    done = await asyncio.gather(*(rotate() for _ in range(4)))

    current = "select count(*) from api_keys where replaced_by is null"
    assert await pool.fetchval(current) == 1
    assert await pool.fetchval("select count(*) from api_keys") == 1 + sum(done)


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
