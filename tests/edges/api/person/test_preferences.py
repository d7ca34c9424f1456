import asyncio
from collections.abc import AsyncIterator
from html.parser import HTMLParser
from typing import Any

import httpx
import pytest

from tests.catalogs import shipped
from tests.edges.edge import Edge, faults, listening, person, running, services
from tocsin.api.app import create_app
from tocsin.api.auth.roles import Role
from tocsin.domain.people.preferences import MOST_CATEGORIES
from tocsin.domain.people.unsubscribe import UnsubscribeSettings, sign, unsubscribe_headers
from tocsin.store.pool import Pool

LINKS = UnsubscribeSettings(
    secret="another secret of at least 32 bytes", base_url="https://notify.example.com"
)
ONE_CLICK = {"List-Unsubscribe": "One-Click"}


@pytest.fixture
async def linked(pool: Pool) -> AsyncIterator[Edge]:
    async with running(services(pool, unsubscribe=LINKS)) as opened:
        yield opened


def path(user_id: str = "ada", category: str = "orders") -> str:
    """Return the path of the link in a mail."""
    headers = unsubscribe_headers(LINKS, user_id, category)
    return headers["List-Unsubscribe"].removeprefix("<https://notify.example.com").removesuffix(">")


async def choices(edge: Edge, user_id: str = "ada") -> Any:
    answer = await edge.http.get("/v1/preferences", headers=person(user_id))
    assert answer.status_code == 200
    return answer.json()


async def test_choices_are_read_and_changed_one_by_one(edge: Edge) -> None:
    assert await choices(edge) == {}

    first = await edge.http.patch(
        "/v1/preferences",
        json={"orders": {"push": False, "email": True}, "offers": {"push": False}},
        headers=person("ada"),
    )
    assert (first.status_code, first.json()) == (200, await choices(edge))

    second = await edge.http.patch(
        "/v1/preferences", json={"orders": {"push": None}, "offers": None}, headers=person("ada")
    )
    assert second.json() == {"orders": {"email": True}} == await choices(edge)


async def test_choices_are_ones_own_only(edge: Edge) -> None:
    await edge.http.patch("/v1/preferences", json={"orders": {"push": False}}, headers=person("ada"))

    assert await choices(edge, "bob") == {}
    for method in ("GET", "PATCH"):
        assert (await edge.http.request(method, "/v1/preferences", json={})).status_code == 401
        with_key = await edge.http.request(
            method, "/v1/preferences", json={}, headers=await edge.key(Role.ADMIN)
        )
        assert with_key.status_code == 401


async def test_an_app_that_changes_everything_at_once_loses_nothing(edge: Edge) -> None:
    answers = await asyncio.gather(
        *(
            edge.http.patch("/v1/preferences", json={f"c{number}": {"push": False}}, headers=person("ada"))
            for number in range(40)
        )
    )

    assert {answer.status_code for answer in answers} == {200}
    assert await choices(edge) == {f"c{number}": {"push": False} for number in range(40)}


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ([], {"$": "invalid"}),
        ({"Orders": {}}, {"Orders": "invalid"}),
        ({"orders": {"sms": False, "push": "no"}}, {"orders.sms": "unknown", "orders.push": "invalid"}),
        ({"orders": False}, {"orders": "invalid"}),
        ({"a\u0000": None}, {"a\ufffd": "nul_character"}),
        ({f"c{number}": None for number in range(MOST_CATEGORIES + 1)}, {"$": "too_many"}),
    ],
)
async def test_every_fault_of_a_change_is_named(edge: Edge, body: Any, expected: dict[str, str]) -> None:
    answer = await edge.http.patch("/v1/preferences", json=body, headers=person("ada"))

    assert (answer.status_code, faults(answer)) == (422, expected)
    assert await choices(edge) == {}


async def test_what_is_no_json_or_too_large_is_refused(edge: Edge) -> None:
    broken = await edge.http.patch("/v1/preferences", content=b"{", headers=person("ada"))
    large = await edge.http.patch("/v1/preferences", content=b" " * 70_000, headers=person("ada"))

    assert (broken.status_code, broken.json()["code"]) == (400, "malformed_json")
    assert (large.status_code, large.json()["code"]) == (413, "body_too_large")


async def test_choices_are_bounded(edge: Edge) -> None:
    full = {f"c{number}": {"push": False} for number in range(MOST_CATEGORIES)}
    assert (await edge.http.patch("/v1/preferences", json=full, headers=person("ada"))).status_code == 200

    more = await edge.http.patch("/v1/preferences", json={"more": {"push": False}}, headers=person("ada"))

    assert (more.status_code, faults(more)) == (422, {"$": "too_many"})
    assert await choices(edge) == full


async def test_the_categories_of_the_catalog_are_listed(pool: Pool) -> None:
    app = create_app(services(pool), shipped())

    async with listening(app) as url, httpx.AsyncClient(base_url=url) as http:
        answer = await http.get("/v1/preferences/categories", headers=person("ada"))
        unnamed = await http.get("/v1/preferences/categories")

    assert answer.json() == {
        "categories": [
            {"category": "announcements", "channels": {"inbox": "all"}},
            {"category": "billing", "channels": {"push": "all", "email": "all"}},
            {"category": "customers", "channels": {"push": "all"}},
            {"category": "general", "channels": {"push": "all"}},
        ]
    }
    assert unnamed.status_code == 401


async def test_a_mail_service_leaves_with_one_click(linked: Edge) -> None:
    await linked.http.patch(
        "/v1/preferences", json={"orders": {"push": True}, "offers": {"email": True}}, headers=person("ada")
    )

    for _ in range(2):
        answer = await linked.http.post(path(), data=ONE_CLICK)
        assert answer.status_code == 200

    assert await choices(linked) == {"orders": {"push": True, "email": False}, "offers": {"email": True}}
    assert await choices(linked, "bob") == {}


async def test_the_form_may_be_empty_or_multipart(linked: Edge) -> None:
    empty = await linked.http.post(path("ada"))
    multipart = await linked.http.post(path("bob"), files={"List-Unsubscribe": (None, "One-Click")})

    assert (empty.status_code, multipart.status_code) == (200, 200)
    assert await choices(linked, "ada") == await choices(linked, "bob") == {"orders": {"email": False}}


@pytest.mark.parametrize(
    ("content", "media_type"),
    [
        (b"List-Unsubscribe=Two-Clicks", "application/x-www-form-urlencoded"),
        (b"a=b", "application/x-www-form-urlencoded"),
        (b"List-Unsubscribe=One-Click", "text/plain"),
        (b'{"List-Unsubscribe": "One-Click"}', "application/json"),
        (b"\xff\xfe", "application/x-www-form-urlencoded"),
        (b"--x\r\nnonsense", "multipart/form-data; boundary=x"),
        (b"nonsense", "multipart/form-data"),
    ],
)
async def test_another_body_changes_nothing(linked: Edge, content: bytes, media_type: str) -> None:
    answer = await linked.http.post(path(), content=content, headers={"Content-Type": media_type})

    assert answer.status_code in {400, 422}
    assert await choices(linked) == {}


async def test_following_the_link_changes_nothing(linked: Edge) -> None:
    for method in ("GET", "HEAD", "OPTIONS"):
        await linked.http.request(method, path())

    assert await choices(linked) == {}


async def test_the_page_asks_loads_nothing_and_is_kept_nowhere(linked: Edge) -> None:
    page = await linked.http.get(path())

    assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert page.headers["content-security-policy"].startswith("default-src 'none';")
    assert page.headers["x-robots-tag"] == "noindex, nofollow"
    assert page.headers["referrer-policy"] == "no-referrer"
    assert page.headers["cache-control"] == "no-store"
    tags = tags_of(page)
    assert tags["form"] == {"method": "post"}
    assert not tags.keys() & {"script", "img", "link", "style", "iframe"}


async def test_pressing_the_button_of_the_page_leaves(linked: Edge) -> None:
    field = tags_of(await linked.http.get(path()))["input"]

    done = await linked.http.post(path(), data={field["name"]: field["value"]})

    assert done.status_code == 200
    assert "orders" in done.text
    assert "form" not in tags_of(done)
    assert await choices(linked) == {"orders": {"email": False}}


async def test_a_category_is_shown_as_text_whatever_it_holds(linked: Edge) -> None:
    assert LINKS.secret is not None
    token = sign(LINKS.secret, "ada", "<script>alert(1)</script>{title}", "email")

    page = await linked.http.get(f"/v1/unsubscribe/{token}")

    assert "&lt;script&gt;alert(1)&lt;/script&gt;{title}" in page.text


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("ending", ["nonsense", "1.W10.AAAA", sign("x" * 32, "ada", "orders", "email")])
async def test_a_bad_link_leads_nowhere(linked: Edge, method: str, ending: str) -> None:
    answer = await linked.http.request(method, f"/v1/unsubscribe/{ending}")

    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
    assert await linked.pool.fetchval("select count(*) from preferences") == 0


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_without_a_secret_there_are_no_links(edge: Edge, method: str) -> None:
    answer = await edge.http.request(method, path())

    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")


async def test_the_document_tells_forms_from_json(edge: Edge) -> None:
    document = (await edge.http.get("/openapi.json")).json()

    leave = document["paths"]["/v1/unsubscribe/{token}"]["post"]
    assert list(leave["requestBody"]["content"]) == ["application/x-www-form-urlencoded"]
    assert list(leave["responses"]["200"]["content"]) == ["text/html"]
    assert document["components"]["schemas"]["OneClick"]["required"] == ["List-Unsubscribe"]


class Tags(HTMLParser):
    """Collects the first tag of each name with its attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[str, dict[str, str | None]] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.setdefault(tag, dict(attrs))


def tags_of(page: httpx.Response) -> dict[str, Any]:
    tags = Tags()
    tags.feed(page.text)
    return tags.found


async def test_a_service_reads_and_changes_the_choices_of_a_person(edge: Edge) -> None:
    service = await edge.key(Role.PRODUCER)
    await edge.http.patch("/v1/preferences", json={"orders": {"push": False}}, headers=person("ada"))

    changed = await edge.http.patch(
        "/v1/users/ada/preferences", json={"offers": {"email": False}}, headers=service
    )

    assert (changed.status_code, changed.json()) == (200, await choices(edge))
    assert changed.json() == {"orders": {"push": False}, "offers": {"email": False}}
    assert (await edge.http.get("/v1/users/ada/preferences", headers=service)).json() == changed.json()
    assert (await edge.http.get("/v1/users/bob/preferences", headers=service)).json() == {}
    refused = await edge.http.patch("/v1/users/ada/preferences", json={"offers": 1}, headers=service)
    assert refused.status_code == 422


async def test_the_choices_of_others_are_closed_to_people_and_to_keys_without_the_right(edge: Edge) -> None:
    url = "/v1/users/ada/preferences"
    viewer = await edge.key(Role.VIEWER)
    for headers, status in ((person("bob"), 401), (person("ada"), 401), (viewer, 403), ({}, 401)):
        assert (await edge.http.get(url, headers=headers)).status_code == status
        assert (
            await edge.http.patch(url, json={"a": {"push": False}}, headers=headers)
        ).status_code == status
    assert await choices(edge) == {}
