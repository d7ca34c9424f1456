from typing import Any
from urllib.parse import quote

import httpx
import pytest

from tests.edges.edge import Edge, faults
from tocsin.api.auth.roles import Role
from tocsin.store.people import suppressions

PATH = "/v1/admin/suppressions"


async def suppress(
    edge: Edge, address: str, headers: dict[str, str], body: dict[str, Any] | None = None
) -> httpx.Response:
    return await edge.http.put(f"{PATH}/{quote(address, safe='')}", json=body or {}, headers=headers)


async def lift(edge: Edge, address: str, headers: dict[str, str]) -> httpx.Response:
    return await edge.http.delete(f"{PATH}/{quote(address, safe='')}", headers=headers)


async def test_an_operator_suppresses_an_address_and_lifts_it(edge: Edge) -> None:
    operator = await edge.key(Role.OPERATOR)
    assert (await edge.http.get(PATH, headers=operator)).json() == {"suppressions": [], "next": None}

    made = await suppress(edge, "Ada@Example.org", operator, {"reason": "asked by phone"})

    assert made.status_code == 200
    shown = made.json()
    assert (shown["address"], shown["reason"], shown["delivery_id"]) == (
        "ada@example.org",
        "asked by phone",
        None,
    )
    assert (await edge.http.get(PATH, headers=operator)).json() == {"suppressions": [shown], "next": None}
    assert await suppressions.of(edge.pool, ["ADA@example.org"]) == {"ADA@example.org"}

    lifted = await lift(edge, "ADA@example.org", operator)
    assert (lifted.status_code, lifted.json()) == (200, {"address": "ada@example.org"})
    assert (await edge.http.get(PATH, headers=operator)).json()["suppressions"] == []


async def test_who_suppressed_an_address_and_lifted_it_is_recorded_without_the_address(edge: Edge) -> None:
    operator = await edge.key(Role.OPERATOR)
    await suppress(edge, "Ada@Example.org", operator, {"reason": "asked by phone"})
    await lift(edge, "ada@example.org", operator)
    await lift(edge, "ada@example.org", operator)

    rows = await edge.pool.fetch("select actor, action, subject, details::text from audit order by id")

    subject = await edge.pool.fetchval("select (suppression_keys('ada@example.org'))[2]")
    assert [(row["action"], row["subject"], row["details"]) for row in rows] == [
        ("suppression.add", subject, '{"reason": "asked by phone"}'),
        ("suppression.remove", subject, "{}"),
    ]
    assert all(row["actor"].startswith("billing (key ") for row in rows)


async def test_said_twice_it_is_one_suppression_with_the_last_reason(edge: Edge) -> None:
    operator = await edge.key(Role.OPERATOR)

    first = (await suppress(edge, "ada@example.org", operator)).json()
    second = (await suppress(edge, "ada@example.org", operator, {"reason": "complained"})).json()

    assert (first["reason"], second["reason"]) == ("manual", "complained")
    assert first["suppressed_at"] == second["suppressed_at"]
    assert (await edge.http.get(PATH, headers=operator)).json()["suppressions"] == [second]


async def test_the_list_is_read_in_pages_newest_first(edge: Edge) -> None:
    operator = await edge.key(Role.OPERATOR)
    addresses = [f"a{number}+news@example.org" for number in range(5)]
    for address in addresses:
        await suppress(edge, address, operator)
    seen: list[str] = []
    following: dict[str, str] = {}

    while True:
        page = await edge.http.get(PATH, params={"limit": "2", **following}, headers=operator)
        assert page.status_code == 200
        seen += [row["address"] for row in page.json()["suppressions"]]
        if page.json()["next"] is None:
            break
        following = {"before": page.json()["next"]}

    assert seen == addresses[::-1]


@pytest.mark.parametrize(
    "before", ["", "x", "~", "2026-03-01T12:00:00Z", "2026-03-01T12:00:00~a@b.c", "2026-03-01T12:00:00Z~\0"]
)
async def test_a_wrong_place_is_told(edge: Edge, before: str) -> None:
    operator = await edge.key(Role.OPERATOR)

    answer = await edge.http.get(PATH, params={"before": before}, headers=operator)

    assert answer.status_code in {400, 422}
    assert faults(answer) == {"before": "invalid"}


@pytest.mark.parametrize("address", ["ada", "ada@", "a b@example.org", "x" * 250 + "@example.org", "a\0@b.c"])
async def test_what_is_no_address_is_told(edge: Edge, address: str) -> None:
    operator = await edge.key(Role.OPERATOR)

    answer = await suppress(edge, address, operator)

    assert answer.status_code == 422
    assert faults(answer) == {"address": "invalid"}
    assert (await lift(edge, address, operator)).status_code == 404


@pytest.mark.parametrize(
    ("body", "field"), [({"reason": " "}, "reason"), ({"reason": 1}, "reason"), ({"reasn": "x"}, "reasn")]
)
async def test_a_wrong_body_is_told(edge: Edge, body: dict[str, Any], field: str) -> None:
    operator = await edge.key(Role.OPERATOR)

    answer = await suppress(edge, "ada@example.org", operator, body)

    assert answer.status_code == 422
    assert list(faults(answer)) == [field]


async def test_what_is_not_suppressed_cannot_be_lifted(edge: Edge) -> None:
    answer = await lift(edge, "ada@example.org", await edge.key(Role.OPERATOR))

    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")


@pytest.mark.parametrize(
    ("role", "status"), [(Role.ADMIN, 200), (Role.OPERATOR, 200), (Role.VIEWER, 403), (Role.PRODUCER, 403)]
)
async def test_addresses_are_for_operators_alone(edge: Edge, role: Role, status: int) -> None:
    key = await edge.key(role)

    answers = [
        await edge.http.get(PATH, headers=key),
        await suppress(edge, "ada@example.org", key),
        await lift(edge, "ada@example.org", key),
    ]

    assert [answer.status_code for answer in answers] == [status] * 3
    assert (await edge.http.get(PATH)).status_code == 401


async def test_addresses_beyond_ascii_are_taken(edge: Edge) -> None:
    operator = await edge.key(Role.OPERATOR)

    assert (await suppress(edge, "jürgen@bücher.example", operator)).json()["address"] == (
        "jürgen@bücher.example"
    )
    assert (await lift(edge, "JÜRGEN@bücher.example", operator)).status_code == 200
