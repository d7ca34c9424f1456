"""The page of suppressed addresses: listing, adding and removing them."""

import re

from tests.edges.api.dashboard.paging import every_page
from tests.edges.api.dashboard.visits import signed_in
from tests.edges.edge import Edge
from tocsin.api.auth.roles import Role
from tocsin.engine.clock import utc_now
from tocsin.store.people.suppressions import hash_address, page, suppress

PATH = "/dashboard/suppressions"


async def test_an_address_is_suppressed_and_sent_mail_again(edge: Edge) -> None:
    visit = await signed_in(edge, Role.OPERATOR)

    answer = await visit.post(PATH, address=" Ada@example.org ", reason="asked by phone")

    assert answer.status_code == 303
    shown = await visit.shown(PATH)
    assert "ada@example.org is sent no mail from now on." in shown
    assert "asked by phone" in shown
    await visit.post(f"{PATH}/remove", address="ada@example.org")
    assert await page(edge.pool, limit=10) == []
    assert "No address is suppressed." in await visit.shown(PATH)
    assert (await visit.post(f"{PATH}/remove", address="ada@example.org")).status_code == 404


async def test_what_is_no_address_is_refused_and_escaped(edge: Edge) -> None:
    visit = await signed_in(edge, Role.OPERATOR)

    for address in ("<script>alert(1)</script>", "ada", "a\0@example.org"):
        answer = await visit.post(PATH, address=address)
        assert (answer.status_code, "must be a mail address" in answer.text) == (422, True)
        assert "<script>alert" not in answer.text
    assert (await visit.post(PATH, address="a" * 301)).status_code == 422
    assert (await visit.post(f"{PATH}/remove", address="a\0b")).status_code == 404
    assert await page(edge.pool, limit=10) == []


async def test_pages_follow_each_other_and_hostile_details_are_escaped(edge: Edge) -> None:
    for number in range(5):
        await suppress(
            edge.pool,
            f"{number}&<b>@example.org",
            reason="hard_bounce",
            now=utc_now(),
            detail="<script>alert(1)",
        )
    visit = await signed_in(edge, Role.OPERATOR)

    shown = "".join([page async for page in every_page(visit, PATH, "?limit=2")])

    assert "<script>alert" not in shown
    assert re.findall(r'value="(\d)&amp;&lt;b&gt;@example.org"', shown) == ["4", "3", "2", "1", "0"]


async def test_the_address_of_an_erased_person_is_a_hash_that_can_be_removed(edge: Edge) -> None:
    await suppress(edge.pool, "ada@example.org", reason="manual", now=utc_now())
    await hash_address(edge.pool, "ada@example.org")
    visit = await signed_in(edge, Role.OPERATOR)

    shown = await visit.shown(PATH)
    hidden = re.search(r'name="address" value="(sha256:[0-9a-f]{64})"', shown)

    assert hidden
    assert "ada@example.org" not in shown
    assert (await visit.post(f"{PATH}/remove", address=hidden[1])).status_code == 303
    assert await page(edge.pool, limit=10) == []


async def test_a_viewer_neither_sees_nor_changes_suppressions(edge: Edge) -> None:
    visit = await signed_in(edge, Role.VIEWER)

    assert (await visit.get(PATH)).status_code == 403
    for path in (PATH, f"{PATH}/remove"):
        assert (await visit.post(path, address="ada@example.org")).status_code == 403
    assert await page(edge.pool, limit=10) == []
