"""User ids are chosen by others: none reaches what belongs to another person, or deceives its reader."""

from urllib.parse import quote

import pytest

from tests.edges.api.dashboard.visits import signed_in
from tests.edges.edge import Edge, person
from tests.rows import add_user
from tocsin.api.auth.roles import Role

HARD = ("a/b?c#d", "ada/export", "vic/webhooks/1", "%2F", "a%2Fb", "//", "a/../b", "ü/€ \N{BELL}")
DECEPTIVE = ("\u009b31m", "a\u0085b", "\u202eadmin", "a\u2066b", ".", "..")


@pytest.mark.parametrize("user_id", HARD)
async def test_an_id_with_slashes_is_one_part_of_a_path(edge: Edge, user_id: str) -> None:
    admin = await edge.key(Role.ADMIN)
    path = f"/v1/users/{quote(user_id, safe='')}"

    put = await edge.http.put(path, json={"locale": "tr"}, headers=admin)
    exported = await edge.http.get(f"{path}/export", headers=admin)
    visit = await signed_in(edge, Role.OPERATOR)
    shown = await visit.get(f"/dashboard/people/{quote(user_id, safe='')}")
    erased = await edge.http.delete(path, headers=admin)

    assert put.status_code == 200, put.text
    assert exported.status_code == 200, exported.text
    assert exported.json()["user_id"] == user_id
    assert shown.status_code == 200
    assert erased.status_code in {200, 202}
    assert await edge.pool.fetch("select user_id from users") == []


async def test_an_encoded_slash_leads_to_no_other_resource(edge: Edge) -> None:
    admin = await edge.key(Role.ADMIN)
    await add_user(edge.pool, "ada")

    for path in ("/v1/users/ada%2Fexport", "/v1/users/ada%2fexport", "/v1/admin%2Fkeys", "/v1/users%1fada"):
        assert (await edge.http.get(path, headers=admin)).status_code == 404, path
    # What stands for an encoded slash within the server is none itself.
    assert (await edge.http.get("/v1/users/a%1Fb", headers=admin)).status_code == 404


@pytest.mark.parametrize("user_id", DECEPTIVE)
async def test_an_id_that_deceives_is_refused(edge: Edge, user_id: str) -> None:
    producer = await edge.key(Role.PRODUCER)
    intent = {
        "type": "new_customer",
        "audience": {"users": [user_id]},
        "payload": {"customer_name": "Ali"},
        "idempotency_key": "1",
    }

    refused = await edge.http.post("/v1/notifications", json=intent, headers=producer)
    registered = await edge.http.get("/v1/devices", headers=person(user_id))

    assert refused.status_code == 422
    assert registered.status_code == 401


@pytest.mark.parametrize(
    "moment", [{"from": "0001-01-01T00:00:00+14:00"}, {"to": "9999-12-31T23:59:59-14:00"}]
)
@pytest.mark.parametrize("path", ["/dashboard/notifications", "/dashboard/scheduled/cancel"])
async def test_a_page_refuses_moments_beyond_the_calendar(
    edge: Edge, path: str, moment: dict[str, str]
) -> None:
    visit = await signed_in(edge, Role.OPERATOR)

    answer = await visit.get(path, params=moment)

    assert answer.status_code == 422
