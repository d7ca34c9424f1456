"""The pages of the dashboard: what they show, and what their forms do."""

import re
from datetime import timedelta
from typing import Any
from uuid import UUID

import msgspec
import pytest

from tests.edges.api.dashboard.visits import signed_in
from tests.edges.edge import Edge
from tests.rows import NOW, add_delivery, add_device, add_notification, add_user, add_waiting
from tocsin.api.auth.roles import Role
from tocsin.domain.ids import uuid7

HOSTILE = """<script>alert(1)</script><img src=x onerror="alert(2)">'"{{ 7 * 7 }}"""


async def add_dead(edge: Edge, **changes: Any) -> UUID:
    row: dict[str, Any] = {
        "state": "dead",
        "provider": "fcm",
        "last_error_code": "UNAVAILABLE",
        "last_error": "try later",
        "settled_at": NOW,
    }
    return await add_delivery(edge.pool, **row | changes)


async def test_notifications_are_searched_with_the_filters_of_the_api(edge: Edge) -> None:
    await add_dead(edge, user_id="ada")
    await add_delivery(edge.pool, user_id="grace")
    visit = await signed_in(edge, Role.VIEWER)

    everything = await visit.shown("/dashboard/notifications")
    found = await visit.shown("/dashboard/notifications", user="ada", state="dead", code="", type="")
    nothing = await visit.shown("/dashboard/notifications", **{"from": "2027-01-01T00:00"})

    assert ("user:ada" in everything, "user:grace" in everything) == (True, True)
    assert ("user:ada" in found, "user:grace" in found) == (True, False)
    assert "Nothing matches" in nothing
    faulty = await visit.get("/dashboard/notifications?from=2026-03-02T00:00&to=2026-03-01T00:00")
    assert (faulty.status_code, "must be later than from" in faulty.text) == (422, True)


async def test_notifications_go_page_by_page(edge: Edge) -> None:
    for number in range(3):
        await add_delivery(edge.pool, user_id=f"person-{number}")
    visit = await signed_in(edge, Role.VIEWER)

    first = await visit.shown("/dashboard/notifications", limit="2")
    address = re.findall(r'rel="next" href="\?([^"]+)"', first)[0].replace("&amp;", "&")
    second = await visit.shown(f"/dashboard/notifications?{address}")

    assert [f"person-{number}" in first for number in range(3)] == [False, True, True]
    assert [f"person-{number}" in second for number in range(3)] == [True, False, False]


async def test_a_notification_is_shown_as_a_timeline(edge: Edge) -> None:
    notification_id = await add_notification(edge.pool)
    delivery_id = await add_dead(edge, notification_id=notification_id, attempts=1)
    await edge.pool.execute(
        """
        insert into attempts (delivery_id, at, outcome, code, detail)
        values ($1, $2, 'retry', 'UNAVAILABLE', 'busy')
        """,
        delivery_id,
        NOW,
    )
    visit = await signed_in(edge, Role.VIEWER)

    shown = await visit.shown(f"/dashboard/notifications/{notification_id}")

    titles = [" ".join(each.split()) for each in re.findall(r'class="what">([^<]+)<', shown)]
    assert titles == ["Accepted", "Planned", "Attempt failed: retry", "dead"]
    assert "Ali Veli" in shown
    assert re.search(r'class="push-title"[^>]*>[^<]+', shown)
    found = await visit.shown("/dashboard/notifications", id=str(notification_id))
    assert str(delivery_id) in found
    assert (await visit.get(f"/dashboard/notifications/{uuid7()}")).status_code == 404


async def test_a_broadcast_shows_how_far_it_is_and_that_not_all_deliveries_are_counted(edge: Edge) -> None:
    many, few = await add_waiting(edge.pool, 1_001), await add_waiting(edge.pool, 60)
    await edge.pool.execute(
        "insert into broadcasts (notification_id, expanded, total, chunk_size, next_at, waiting_for)"
        " values ($1, 2000, 1000000, 1, $2, 'the lanes')",
        many,
        NOW,
    )
    visit = await signed_in(edge, Role.VIEWER)

    of_many = await visit.shown(f"/dashboard/notifications/{many}")
    of_few = await visit.shown(f"/dashboard/notifications/{few}")

    assert "expanding: 2,000 of 1,000,000 people have their deliveries; waits: the lanes" in of_many
    assert '>Deliveries <span class="soft">1,000+</span>' in of_many
    assert "950 or more deliveries are not shown." in of_many
    assert '>Deliveries <span class="soft">60</span>' in of_few
    assert "10 more deliveries are not shown." in of_few


async def test_receipts_end_the_timeline(edge: Edge) -> None:
    notification_id = await add_notification(edge.pool)
    taken: dict[str, Any] = {
        "state": "delivered",
        "settled_at": NOW,
        "provider": "fcm",
        "provider_message_id": "m-1",
    }
    delivery_id = await add_delivery(edge.pool, notification_id=notification_id, **taken)
    confirmed = await add_notification(edge.pool)
    await add_delivery(edge.pool, notification_id=confirmed, **{**taken, "provider": "expo"})
    await edge.pool.execute(
        """
        insert into receipts (delivery_id, received_at, delivered_at, opened_at, dismissed_at)
        values ($1, $2, $2, $3, $4)
        """,
        delivery_id,
        NOW + timedelta(seconds=1),
        NOW + timedelta(seconds=9),
        NOW + timedelta(seconds=5),
    )
    visit = await signed_in(edge, Role.VIEWER)

    shown = await visit.shown(f"/dashboard/notifications/{notification_id}")
    by_provider = await visit.shown(f"/dashboard/notifications/{confirmed}")

    titles = re.findall(r'class="what">([^<]+)<', shown)
    assert titles == ["Accepted", "Planned", "sent", "delivered", "dismissed", "opened"]
    assert "fcm: m-1" in shown
    assert shown.count("reported by the device") == 3
    assert re.findall(r'class="what">([^<]+)<', by_provider)[2:] == ["sent", "delivered"]
    assert "confirmed by expo&#39;s receipt" in by_provider


async def test_hostile_texts_are_escaped_everywhere(edge: Edge) -> None:
    payload = msgspec.json.encode({"customer_name": HOSTILE}).decode()
    notification_id = await add_notification(
        edge.pool, payload=payload, producer=HOSTILE[:100], idempotency_key=HOSTILE[:100], type="offer"
    )
    await add_dead(edge, notification_id=notification_id, last_error=HOSTILE, last_error_code=HOSTILE[:50])
    await add_device(edge.pool, device_model=HOSTILE, app_version=HOSTILE)
    await add_user(edge.pool, "ada", email="<b>@example.org")
    visit = await signed_in(edge, Role.ADMIN, producer=HOSTILE)

    for path in (
        "/dashboard/now",
        "/dashboard/notifications",
        f"/dashboard/notifications/{notification_id}",
        "/dashboard/notifications?user=%3Cscript%3Ealert(1)%3C/script%3E",
        "/dashboard/dead-letters",
        "/dashboard/dead-letters/cause?state=dead",
        "/dashboard/people/ada",
        "/dashboard/sign-in?next=%22%3E%3Cscript%3Ealert(1)%3C/script%3E",
    ):
        shown = await visit.shown(path)
        assert "<script>alert" not in shown, path
        assert "<img src=x" not in shown, path
        assert "<b>@" not in shown, path
        assert not re.search(r"<[^>]* (on\w+|style)=", re.sub(r'"[^"]*"', '""', shown)), path


async def test_dead_letters_are_grouped_and_all_of_a_cause_replayed(edge: Edge) -> None:
    for _ in range(3):
        await add_dead(edge)
    other = await add_dead(edge, last_error_code="INVALID_ARGUMENT", state="rejected")
    visit = await signed_in(edge, Role.OPERATOR)

    causes = await visit.shown("/dashboard/dead-letters")
    address = next(each for each in re.findall(r'href="([^"]+cause[^"]+)"', causes) if "UNAVAILABLE" in each)
    cause = await visit.shown(address.replace("&amp;", "&"))
    assert "Replay 3" in cause
    form = re.findall(
        r'<input type="hidden" name="(\w+)" value="([^"]*)">', cause.partition('aria-label="Replay"')[2]
    )
    fields = {name: value for name, value in form[:6] if name not in {"csrf_token", "delivery_id"}}
    answer = await visit.post("/dashboard/dead-letters/replay", rate=7, **fields)

    assert answer.status_code == 303
    shown = await visit.shown(answer.headers["location"])
    assert "Replay of 3 deliveries started." in shown
    assert "Replay of 3 deliveries started." not in await visit.shown(answer.headers["location"])
    assert "<dd>7 a second</dd>" in shown
    assert "hx-trigger" in await visit.shown(f"{answer.headers['location']}/progress")
    stored = await edge.pool.fetchrow("select filter::text, created_by from replays")
    assert msgspec.json.decode(stored["filter"])["code"] == "UNAVAILABLE"
    assert stored["created_by"].startswith("console (key ")
    stopped = await visit.post(f"{answer.headers['location']}/stop")
    assert "was stopped" in await visit.shown(stopped.headers["location"])
    single = await visit.post("/dashboard/dead-letters/replay", delivery_id=str(other))
    assert "Replay of 1 delivery started." in await visit.shown(single.headers["location"])


async def test_some_dead_letters_are_chosen_and_replayed(edge: Edge) -> None:
    first, _, last = [await add_dead(edge) for _ in range(3)]
    visit = await signed_in(edge, Role.OPERATOR)
    path = "/dashboard/dead-letters/replay-chosen"
    shown = await visit.shown("/dashboard/dead-letters/cause?state=dead")
    assert f'form="chosen" name="delivery_ids" value="{last}"' in shown

    none = await visit.post(path)
    answer = await visit.post(path, delivery_ids=[str(first), str(last)], rate="7")

    assert none.status_code == 422
    progress = await visit.shown(answer.headers["location"])
    assert "Replay of 2 deliveries started." in progress
    assert "<dt>Chosen</dt><dd>2</dd>" in progress
    filters = await edge.pool.fetch("select filter::text from replays")
    assert [msgspec.json.decode(row["filter"]) for row in filters] == [
        {"delivery_ids": [str(first), str(last)]}
    ]
    # Those that an address has chosen stay chosen in the form that replays all of them.
    kept = await visit.shown(f"/dashboard/dead-letters/cause?delivery_ids={first}&delivery_ids={last}")
    assert "2 match" in kept
    assert kept.count('type="hidden" name="delivery_ids"') == 4


async def test_a_viewer_sees_dead_letters_without_the_buttons(edge: Edge) -> None:
    await add_dead(edge)
    visit = await signed_in(edge, Role.VIEWER)

    shown = await visit.shown("/dashboard/dead-letters/cause?state=dead")

    assert "1 match" in shown
    assert "/dashboard/dead-letters/replay" not in shown
    assert 'name="delivery_ids"' not in shown


async def test_dead_letters_are_exported_as_lines(edge: Edge, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tocsin.api.dashboard.pages.dead_letters.EXPORT_SIZE", 2)
    made = [await add_dead(edge) for _ in range(5)]
    visit = await signed_in(edge, Role.VIEWER)

    answer = await visit.get("/dashboard/dead-letters/export", params={"state": "dead"})

    lines = [msgspec.json.decode(line) for line in answer.content.splitlines()]
    assert {line["delivery_id"] for line in lines} == set(map(str, made))
    assert answer.headers["content-disposition"].startswith("attachment")
    assert answer.headers["cache-control"] == "no-store"


async def test_a_person_is_shown_with_what_they_got_and_did_not_get(edge: Edge) -> None:
    await add_user(edge.pool, "ada", email="ada@example.org", timezone="Asia/Tehran", locale="fa")
    await add_device(edge.pool, device_model="Pixel 9", token="secret-token")
    await add_delivery(edge.pool, state="skipped", reason="opted_out", settled_at=NOW)
    visit = await signed_in(edge, Role.OPERATOR)

    looked_up = await visit.get("/dashboard/people?user=ada")
    shown = await visit.shown(looked_up.headers["location"])

    for expected in ("Asia/Tehran", "Pixel 9", "ada@example.org", "skipped", "Erase this person"):
        assert expected in shown
    assert ("secret-token" in shown, "Send a test" in shown) == (False, False)
    assert (await visit.get("/dashboard/people/nobody")).status_code == 404


async def test_an_admin_sends_a_test(edge: Edge) -> None:
    await add_user(edge.pool, "ada")
    visit = await signed_in(edge, Role.ADMIN)
    assert "Send to ada" in await visit.shown("/dashboard/people/ada?test=new_customer")

    sent = await visit.post(
        "/dashboard/people/ada/test", type="new_customer", payload='{"customer_name": "Ali"}'
    )

    assert sent.status_code == 303, sent.text
    assert "user:ada" in await visit.shown(sent.headers["location"])
    for payload in ("{", "[]", "[" * 5_000, '{"customer_name": 7}'):
        refused = await visit.post("/dashboard/people/ada/test", type="new_customer", payload=payload)
        assert refused.status_code == 422, payload[:20]


async def test_a_person_is_erased_once_their_id_is_entered(edge: Edge) -> None:
    await add_user(edge.pool, "ada")
    await add_device(edge.pool)
    visit = await signed_in(edge, Role.OPERATOR)

    slip = await visit.post("/dashboard/people/ada/erase", confirm="adam")
    exported = await visit.get("/dashboard/people/ada/export")
    erased = await visit.post("/dashboard/people/ada/erase", confirm="ada")

    assert (slip.status_code, erased.status_code) == (422, 303)
    assert exported.json()["user_id"] == "ada"
    assert "Erased: 1 devices" in await visit.shown("/dashboard/people")
    assert await edge.pool.fetchval("select count(*) from devices") == 0
