"""A person's inbox over HTTP: their own items, page by page, and what they do with them."""

from datetime import datetime
from typing import Any
from uuid import UUID

import httpx
import pytest

from tests.edges.edge import Edge, faults, person
from tests.inboxes import add_items
from tests.rows import NOW
from tocsin.domain.ids import uuid7

CHANGES = ("read", "unread", "archive", "unarchive")


async def listed(edge: Edge, user_id: str = "ada", **query: Any) -> Any:
    answer = await edge.http.get("/v1/inbox", params=query, headers=person(user_id))
    assert answer.status_code == 200, answer.text
    return answer.json()


async def post(edge: Edge, path: str, user_id: str = "ada", **body: Any) -> httpx.Response:
    return await edge.http.post(f"/v1/inbox/{path}", headers=person(user_id), json=body or None)


def titles(page: Any) -> list[str]:
    return [item["title"] for item in page["items"]]


def counts(answer: Any) -> tuple[int, int]:
    return answer["unread"], answer["unseen"]


async def test_an_empty_inbox_has_nothing_new(edge: Edge) -> None:
    assert await listed(edge) == {"items": [], "next_cursor": None, "unread": 0, "unseen": 0}


async def test_items_are_listed_newest_first_with_all_that_an_app_shows(edge: Edge) -> None:
    first, second = await add_items(edge.pool, "ada", 2)

    page = await listed(edge)

    assert [item["id"] for item in page["items"]] == [str(second), str(first)]
    item = dict(page["items"][1])
    assert datetime.fromisoformat(item.pop("created_at")) == NOW
    assert item == {
        "id": str(first),
        "type": "announcement",
        "category": "orders",
        "title": "Item 0",
        "body": "Text",
        "link": "/x",
        "icon": None,
        "data": {"k": "v"},
        "seen_at": None,
        "read_at": None,
        "archived_at": None,
    }
    assert counts(page) == (2, 2)


async def test_a_thousand_items_are_read_page_by_page_while_new_ones_come(edge: Edge) -> None:
    made = await add_items(edge.pool, "ada", 1_000)
    await add_items(edge.pool, "bob", 50)

    seen: list[str] = []
    cursor: dict[str, str] = {}
    while True:
        page = await listed(edge, limit=100, **cursor)
        seen += [item["id"] for item in page["items"]]
        assert counts(page) == (100, 100)
        if page["next_cursor"] is None:
            break
        cursor = {"cursor": page["next_cursor"]}
        await add_items(edge.pool, "ada", 1)

    assert seen == [str(each) for each in reversed(made)]


async def test_a_page_that_ends_the_list_has_no_cursor(edge: Edge) -> None:
    await add_items(edge.pool, "ada", 3)

    assert (await listed(edge, limit=3))["next_cursor"] is None
    assert (await listed(edge, limit=2))["next_cursor"] is not None


async def test_items_are_filtered_by_category_and_state(edge: Edge) -> None:
    orders, offers = (
        await add_items(edge.pool, "ada", 1),
        await add_items(edge.pool, "ada", 2, category="offers"),
    )
    await post(edge, f"{offers[0]}/archive")
    await post(edge, f"{orders[0]}/read")

    async def ids(**query: str) -> list[UUID]:
        return [UUID(item["id"]) for item in (await listed(edge, **query))["items"]]

    assert await ids() == [offers[1], orders[0]]
    assert await ids(category="offers") == [offers[1]]
    assert await ids(state="unread") == [offers[1]]
    assert await ids(state="archived") == [offers[0]]
    assert await ids(state="all") == [offers[1], offers[0], orders[0]]
    assert await ids(state="all", category="offers") == [offers[1], offers[0]]
    assert await ids(category="nothing") == []


async def test_reading_is_seeing_and_can_be_taken_back(edge: Edge) -> None:
    item, _ = await add_items(edge.pool, "ada", 2)

    read = (await post(edge, f"{item}/read")).json()
    assert read["item"]["read_at"] == read["item"]["seen_at"] is not None
    assert counts(read) == (1, 1)

    unread = (await post(edge, f"{item}/unread")).json()
    assert (unread["item"]["read_at"], unread["item"]["seen_at"]) == (None, read["item"]["seen_at"])
    assert counts(unread) == (2, 1)


async def test_what_is_archived_counts_nowhere_until_it_is_put_back(edge: Edge) -> None:
    (item,) = await add_items(edge.pool, "ada", 1)

    archived = (await post(edge, f"{item}/archive")).json()
    assert archived["item"]["archived_at"] == archived["item"]["seen_at"] is not None
    assert (counts(archived), titles(await listed(edge))) == ((0, 0), [])

    back = (await post(edge, f"{item}/unarchive")).json()
    assert (counts(back), back["item"]["archived_at"]) == ((1, 0), None)


@pytest.mark.parametrize("change", CHANGES)
async def test_repeating_a_change_answers_the_same(edge: Edge, change: str) -> None:
    (item,) = await add_items(edge.pool, "ada", 1)

    first = await post(edge, f"{item}/{change}")
    second = await post(edge, f"{item}/{change}")

    assert (first.status_code, second.status_code) == (200, 200)
    assert first.json() == second.json()


async def test_all_up_to_an_item_are_seen(edge: Edge) -> None:
    made = await add_items(edge.pool, "ada", 3)

    assert counts((await post(edge, "seen", up_to=str(made[1]))).json()) == (3, 1)
    assert counts((await post(edge, "seen")).json()) == (3, 0)
    assert counts((await post(edge, "seen")).json()) == (3, 0)


async def test_all_are_read_or_those_of_a_category(edge: Edge) -> None:
    await add_items(edge.pool, "ada", 3)
    offers = await add_items(edge.pool, "ada", 2, category="offers")
    others = await add_items(edge.pool, "bob", 1)

    assert counts((await post(edge, "read", category="offers")).json()) == (3, 3)
    assert counts((await post(edge, "read", up_to=str(others[0]))).json()) == (0, 0)
    assert counts(await listed(edge, "bob")) == (1, 1)
    assert {UUID(each["id"]) for each in (await listed(edge, category="offers"))["items"]} == set(offers)


async def test_more_items_than_one_statement_changes_are_all_read(edge: Edge) -> None:
    await add_items(edge.pool, "ada", 2_100)

    assert counts((await post(edge, "read")).json()) == (0, 0)
    assert (await listed(edge, state="unread"))["items"] == []


@pytest.mark.parametrize("change", CHANGES)
async def test_nobody_changes_or_sees_the_items_of_somebody_else(edge: Edge, change: str) -> None:
    (item,) = await add_items(edge.pool, "ada", 1)
    before = await listed(edge)

    answer = await post(edge, f"{item}/{change}", "bob")

    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
    assert answer.json()["detail"] == (await post(edge, f"{uuid7()}/{change}", "bob")).json()["detail"]
    assert (await listed(edge, "bob"))["items"] == []
    assert await listed(edge) == before
    await post(edge, "read", "bob", up_to=str(item))
    assert await listed(edge) == before


@pytest.mark.parametrize("item_id", ["7", "x" * 3_000, "%00", "..%2F..", "null", "'; drop table inbox_items"])
async def test_an_id_that_is_none_finds_nothing(edge: Edge, item_id: str) -> None:
    answer = await post(edge, f"{item_id}/read")

    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"state": "gone"}, "state"),
        ({"limit": "0"}, "limit"),
        ({"limit": "101"}, "limit"),
        ({"cursor": "seven"}, "cursor"),
        ({"category": "a\x00b"}, "category"),
        ({"category": "x" * 65}, "category"),
        ({"user_id": "bob"}, "user_id"),
    ],
)
async def test_a_query_that_makes_no_sense_is_refused(edge: Edge, query: dict[str, str], field: str) -> None:
    answer = await edge.http.get("/v1/inbox", params=query, headers=person("ada"))

    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_query")
    assert list(faults(answer)) == [field]


@pytest.mark.parametrize("body", [{"up_to": "seven"}, {"owner": "bob"}, {"up_to": 7}])
async def test_a_body_that_makes_no_sense_is_refused(edge: Edge, body: dict[str, Any]) -> None:
    assert (await post(edge, "seen", **body)).status_code == 422


async def test_only_a_person_has_an_inbox(edge: Edge) -> None:
    for headers in ({}, {"Authorization": "Bearer tocsin_x"}, {"Authorization": "Bearer a.b.c"}):
        assert (await edge.http.get("/v1/inbox", headers=headers)).status_code == 401
        assert (await edge.http.post("/v1/inbox/read", headers=headers)).status_code == 401
