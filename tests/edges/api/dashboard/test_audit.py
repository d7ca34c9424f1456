"""The page of the audit: filters, pages, and texts of others."""

import html
import re

import pytest

from tests.edges.api.dashboard.paging import every_page
from tests.edges.api.dashboard.visits import signed_in
from tests.edges.edge import Edge
from tocsin.api.auth.roles import Role
from tocsin.store import audit

PATH = "/dashboard/audit"
HOSTILE = "<img src=x onerror=alert(1)>"


async def test_actions_are_filtered_by_action_actor_subject_and_time(edge: Edge) -> None:
    for action, subject in (("user.erase", "user:1"), ("user.export", "user:2")):
        await audit.record(edge.pool, actor="ada (key 1)", action=action, subject=subject)
    visit = await signed_in(edge, Role.OPERATOR)

    for field, value in (("action", "user.erase"), ("subject", "user:1")):
        shown = await visit.shown(PATH, **{field: value})
        assert ("user:1" in shown, "user:2" in shown) == (True, False)
    both = await visit.shown(PATH, actor="ada (key 1)", **{"from": "2020-01-01T00:00", "to": ""})
    assert ("user:1" in both, "user:2" in both, "session.open" in both) == (True, True, False)
    assert "Nothing matches." in await visit.shown(PATH, to="2020-01-01T00:00")


async def test_pages_follow_each_other_without_gaps(edge: Edge) -> None:
    for number in range(5):
        await audit.record(edge.pool, actor="a&b", action="user.erase", subject=f"user:{number}")
    visit = await signed_in(edge, Role.OPERATOR)

    pages = [page async for page in every_page(visit, PATH, "?actor=a%26b&limit=2")]

    assert len(pages) == 3
    assert re.findall(r">user:(\d)<", "".join(pages)) == ["4", "3", "2", "1", "0"]


async def test_texts_of_others_are_escaped(edge: Edge) -> None:
    details = {HOSTILE: HOSTILE, "list": [HOSTILE], "none": None}
    await audit.record(edge.pool, actor=HOSTILE, action="user.erase", subject=HOSTILE, details=details)
    visit = await signed_in(edge, Role.OPERATOR)

    shown = await visit.shown(PATH, actor=HOSTILE)

    assert "<img src=x" not in shown
    assert html.escape(HOSTILE) in shown


@pytest.mark.parametrize(
    "query",
    [
        {"from": "yesterday"},
        {"before": "x"},
        {"limit": "0"},
        {"action": "a" * 701},
        {"to": "9999-12-31T23:59"},
    ],
)
async def test_a_query_with_faults_is_refused(edge: Edge, query: dict[str, str]) -> None:
    visit = await signed_in(edge, Role.OPERATOR)

    assert (await visit.get(PATH, params=query)).status_code == 422


async def test_a_viewer_does_not_see_the_audit(edge: Edge) -> None:
    visit = await signed_in(edge, Role.VIEWER)

    assert (await visit.get(PATH)).status_code == 403
