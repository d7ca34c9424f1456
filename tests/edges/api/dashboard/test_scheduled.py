"""The page of what is scheduled: what leaves when, and cancelling by a query."""

import html
import re
from datetime import timedelta
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest

from tests.edges.api.dashboard.visits import signed_in
from tests.edges.edge import Edge
from tests.rows import add_delivery, add_notification, add_user, delivery
from tocsin.api.auth.roles import Role
from tocsin.api.dashboard.pages import scheduled
from tocsin.engine.clock import utc_now
from tocsin.engine.settle import cancelling

PATH = "/dashboard/scheduled"
CANCEL = f"{PATH}/cancel"
HOSTILE = "<script>alert(1)</script>\"'"


async def add_scheduled(edge: Edge, kind: str, hours: int = 2) -> UUID:
    now = utc_now()
    made = await add_notification(edge.pool, type=kind, accepted_at=now)
    return await add_delivery(
        edge.pool, notification_id=made, state="scheduled", due_at=now + timedelta(hours=hours)
    )


async def states(edge: Edge, *ids: UUID) -> list[str]:
    return [(await delivery(edge.pool, each))["state"] for each in ids]


async def test_what_leaves_is_shown_by_hour_and_type(edge: Edge) -> None:
    await add_user(edge.pool, "ada", timezone="Asia/Tokyo")
    for kind, hours in (("offer", 2), ("offer", 2), (HOSTILE, 2), ("later", 30)):
        await add_scheduled(edge, kind, hours)
    visit = await signed_in(edge, Role.VIEWER)

    today, week = await visit.shown(PATH), await visit.shown(PATH, hours="168")

    assert re.search(r"offer</a> 2<", today)
    local = (utc_now() + timedelta(hours=2)).astimezone(ZoneInfo("Asia/Tokyo"))
    assert re.search(rf"<strong>{local:%H}:00</strong>.*? Asia/Tokyo <span class=\"soft\">3<", today)
    assert "<script>alert" not in today
    assert "&lt;script&gt;alert(1)" in today
    assert ("1 leave later." in today, ">later</a>" in today) == (True, False)
    assert ">later</a>" in week
    assert (await visit.get(PATH, params={"hours": "337"})).status_code == 422


async def test_a_campaign_is_counted_first_and_then_cancelled(edge: Edge) -> None:
    offers = [await add_scheduled(edge, "offer") for _ in range(3)]
    other = await add_scheduled(edge, "receipt")
    visit = await signed_in(edge, Role.OPERATOR)

    counted = await visit.shown(CANCEL, type="offer", **{"from": "2020-01-01T00:00", "to": ""})

    assert "3 deliveries would be cancelled" in counted
    assert await states(edge, *offers, other) == ["scheduled"] * 4
    form = counted.partition('<form method="post" action="/dashboard/scheduled/cancel">')[2].partition(
        "</form>"
    )[0]
    fields = dict(re.findall(r'name="([^"]+)" value="([^"]*)"', form))
    assert fields.pop("csrf_token")
    assert fields == {"type": "offer", "from": "2020-01-01T00:00:00Z"}
    done = await visit.post(CANCEL, **fields)
    assert "3 deliveries cancelled" in done.text
    assert await states(edge, *offers, other) == [*["cancelled"] * 3, "scheduled"]
    details = "select actor, subject from audit where action = 'notifications.cancel'"
    [entry] = await edge.pool.fetch(details)
    assert entry["subject"] == "type:offer"
    assert entry["actor"].startswith("console (key ")


async def test_a_long_cancellation_goes_on_where_it_ended(
    edge: Edge, monkeypatch: pytest.MonkeyPatch
) -> None:
    offers = [await add_scheduled(edge, "offer") for _ in range(3)]
    visit = await signed_in(edge, Role.OPERATOR)
    monkeypatch.setattr(cancelling, "BUDGET", 0.0)
    monkeypatch.setattr(scheduled, "COUNT_SECONDS", 0.0)
    monkeypatch.setattr(cancelling, "COUNTED", 1)

    first = (await visit.post(CANCEL, type="offer")).text
    cursor = re.search(r'name="cursor" value="([^"]+)"', first)

    assert "1 delivery cancelled" in first
    assert cursor
    second = (await visit.post(CANCEL, type="offer", cursor=cursor[1], cancelled="1")).text
    assert "2 deliveries cancelled" in second
    assert sorted(await states(edge, *offers)) == ["cancelled", "cancelled", "scheduled"]
    counted = await visit.shown(CANCEL, type="offer")
    assert "At least 0 deliveries would be cancelled" in counted
    assert "Count further" in counted


async def test_a_filter_is_required_and_hostile_ones_are_escaped(edge: Edge) -> None:
    offer = await add_scheduled(edge, "offer")
    visit = await signed_in(edge, Role.OPERATOR)

    empty = await visit.post(CANCEL)
    shown = await visit.shown(CANCEL, type=HOSTILE)

    assert (empty.status_code, "must have at least one of" in empty.text) == (422, True)
    assert "would be cancelled" not in await visit.shown(CANCEL)
    assert "<script>alert" not in shown
    assert html.escape(HOSTILE)[:20] in shown
    for fields in ({"from": "2030-01-01T00:00:00Z", "to": "2020-01-01T00:00:00Z"}, {"type": "a" * 201}):
        assert (await visit.post(CANCEL, **fields)).status_code == 422
    assert await states(edge, offer) == ["scheduled"]


async def test_a_viewer_cancels_nothing(edge: Edge) -> None:
    offer = await add_scheduled(edge, "offer")
    visit = await signed_in(edge, Role.VIEWER)

    assert CANCEL not in await visit.shown(PATH)
    assert (await visit.get(CANCEL)).status_code == 403
    assert (await visit.post(CANCEL, type="offer")).status_code == 403
    assert await states(edge, offer) == ["scheduled"]
