import pytest

from tests.edges.edge import Edge, faults
from tocsin.api.auth.roles import Role

GOOD = {
    "email": "ada@example.com",
    "locale": "tr_TR",
    "timezone": "Europe/Istanbul",
    "gmt_offset_seconds": 10_800,
    "allowed_window": "08:00-23:00",
}


async def test_a_person_is_stored_replaced_and_read(edge: Edge) -> None:
    headers = await edge.key(Role.PRODUCER)

    stored = await edge.http.put("/v1/users/ada", json=GOOD, headers=headers)
    assert stored.status_code == 200
    assert stored.json()["locale"] == "tr-TR"
    assert (await edge.http.get("/v1/users/ada", headers=headers)).json() == stored.json()

    await edge.http.put("/v1/users/ada", json={"locale": "en"}, headers=headers)
    replaced = (await edge.http.get("/v1/users/ada", headers=headers)).json()
    assert (replaced["locale"], replaced["email"], replaced["timezone"]) == ("en", None, None)
    assert replaced["allowed_window"] is None


async def test_user_ids_may_hold_anything_printable(edge: Edge) -> None:
    headers = await edge.key(Role.OPERATOR)

    stored = await edge.http.put("/v1/users/a%20b%2Bc%40d%C3%A9", json={}, headers=headers)

    assert stored.json()["user_id"] == "a b+c@dé"


async def test_every_fault_of_a_person_is_named(edge: Edge) -> None:
    answer = await edge.http.put(
        "/v1/users/ada",
        json={"email": "nobody", "locale": "??", "timezone": "UTC+3", "gmt_offset_seconds": 90_000, "age": 3},
        headers=await edge.key(Role.PRODUCER),
    )

    assert (answer.status_code, faults(answer)) == (
        422,
        {
            "email": "invalid",
            "locale": "invalid",
            "timezone": "invalid",
            "gmt_offset_seconds": "invalid",
            "age": "unknown",
        },
    )


@pytest.mark.parametrize(
    ("window", "kept"), [("always", "always"), ("22:00-06:30", "22:00-06:30"), ("00:00-24:00", "always")]
)
async def test_a_person_has_hours_of_their_own(edge: Edge, window: str, kept: str) -> None:
    headers = await edge.key(Role.PRODUCER)

    stored = await edge.http.put("/v1/users/ada", json={"allowed_window": window}, headers=headers)
    many = {"users": [{"user_id": "bob", "allowed_window": window}]}
    await edge.http.put("/v1/users", json=many, headers=headers)

    assert stored.json()["allowed_window"] == kept
    for user_id in ("ada", "bob"):
        read = await edge.http.get(f"/v1/users/{user_id}", headers=headers)
        assert read.json()["allowed_window"] == kept


@pytest.mark.parametrize("window", ["", "8", "25:00-26:00", "08:00-08:00", "never", "08:00-23:00 tr"])
async def test_hours_that_make_no_sense_are_refused(edge: Edge, window: str) -> None:
    answer = await edge.http.put(
        "/v1/users/ada", json={"allowed_window": window}, headers=await edge.key(Role.PRODUCER)
    )

    assert (answer.status_code, faults(answer)) == (422, {"allowed_window": "invalid"})


@pytest.mark.parametrize("user_id", ["%00", "a%0Ab", "x" * 129])
async def test_a_bad_user_id_is_refused(edge: Edge, user_id: str) -> None:
    headers = await edge.key(Role.PRODUCER)

    assert (await edge.http.put(f"/v1/users/{user_id}", json={}, headers=headers)).status_code == 422
    assert (await edge.http.get(f"/v1/users/{user_id}", headers=headers)).status_code == 404


async def test_a_thousand_people_are_stored_at_once(edge: Edge) -> None:
    people = [{"user_id": number, **GOOD} for number in range(1_000)]

    answer = await edge.http.put("/v1/users", json={"users": people}, headers=await edge.key(Role.PRODUCER))

    assert (answer.status_code, answer.json()) == (200, {"stored": 1_000})
    assert await edge.pool.fetchval("select count(*) from users") == 1_000


async def test_one_bad_person_stops_all_and_is_named(edge: Edge) -> None:
    people = [{"user_id": "ada"}, {"user_id": "bob", "timezone": "Nowhere"}, {"locale": "en"}]

    answer = await edge.http.put("/v1/users", json={"users": people}, headers=await edge.key(Role.PRODUCER))

    assert faults(answer) == {"users[1].timezone": "invalid", "users[2].user_id": "missing"}
    assert await edge.pool.fetchval("select count(*) from users") == 0


async def test_nobody_is_in_the_list_twice(edge: Edge) -> None:
    people = [{"user_id": 42}, {"user_id": "ada"}, {"user_id": "42"}]

    answer = await edge.http.put("/v1/users", json={"users": people}, headers=await edge.key(Role.PRODUCER))

    assert faults(answer) == {"users[0].user_id": "repeated", "users[2].user_id": "repeated"}


@pytest.mark.parametrize("count", [0, 1_001])
async def test_the_list_is_bounded(edge: Edge, count: int) -> None:
    people = [{"user_id": number} for number in range(count)]

    answer = await edge.http.put("/v1/users", json={"users": people}, headers=await edge.key(Role.PRODUCER))

    assert (answer.status_code, faults(answer)) == (422, {"users": "invalid"})


async def test_an_unknown_person_is_not_found(edge: Edge) -> None:
    answer = await edge.http.get("/v1/users/nobody", headers=await edge.key(Role.PRODUCER))

    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
