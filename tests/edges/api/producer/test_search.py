"""Finding notifications by what became of them."""

from collections.abc import Mapping
from typing import Any

import pytest

from tests.edges.edge import Edge, faults
from tests.rows import NOW, add_delivery, add_notification
from tocsin.api.auth.roles import Role
from tocsin.domain.delivery.states import STATUS_OF, State, Status
from tocsin.engine.clock import utc_now
from tocsin.engine.inspect import search as engine
from tocsin.store.deliveries import search as store
from tocsin.store.pool import Connection, Pool
from tocsin.wire.filters import DeliveryFilter
from tocsin.wire.search import SearchPage

PATH = "/v1/notifications"
MANY = 5_000
CROWD = 500


async def search(edge: Edge, headers: Mapping[str, str], **query: Any) -> Any:
    answer = await edge.http.get(PATH, params=query, headers=headers)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_a_search_shows_the_deliveries_that_match_and_why_they_are_so(edge: Edge) -> None:
    viewer = await edge.key(Role.VIEWER)
    made = await add_notification(edge.pool, accepted_at=utc_now())
    dead = await add_delivery(
        edge.pool,
        notification_id=made,
        state="dead",
        last_error_code="UNAVAILABLE",
        provider="fcm",
        settled_at=NOW,
    )
    waiting = await add_delivery(edge.pool, "bob", notification_id=made)
    await add_delivery(edge.pool, "eve", notification_id=made, state="skipped", reason="opted_out")
    await add_delivery(edge.pool, "ada", state="sent")
    operator = await edge.key(Role.OPERATOR)
    await edge.http.put("/v1/admin/toggles/provider:fcm", json={"enabled": False}, headers=operator)

    (item,) = (await search(edge, viewer, user="ada", state="dead"))["items"]
    (other,) = (await search(edge, viewer, user="bob"))["items"]
    (skipped,) = (await search(edge, viewer, reason="opted_out"))["items"]

    assert (item["notification_id"], item["type"], item["producer"]) == (str(made), "new_customer", "shop")
    assert (item["delivery_count"], item["truncated"]) == (3, False)
    (delivery,) = item["deliveries"]
    assert delivery["delivery_id"] == str(dead)
    assert (delivery["state"], delivery["code"], delivery["recipient"]) == ("dead", "UNAVAILABLE", "user:ada")
    assert delivery["hint"].startswith("FCM is overloaded.")
    (held,) = other["deliveries"]
    assert (held["delivery_id"], held["waiting_for"]) == (str(waiting), "provider:fcm is switched off")
    assert [each["reason"] for each in skipped["deliveries"]] == ["opted_out"]


async def test_pages_follow_each_other_from_the_newest_to_the_oldest(edge: Edge) -> None:
    viewer = await edge.key(Role.VIEWER)
    made = [await add_notification(edge.pool) for _ in range(5)]
    for notification_id in made:
        for user in ("ada", "bob", "ada"):
            await add_delivery(edge.pool, user, notification_id=notification_id, state="dead")

    for query in ({}, {"user": "ada"}, {"state": "dead"}, {"type": "new_customer"}, {"channel": "push"}):
        found: list[str] = []
        cursor: dict[str, str] = {}
        while True:
            page = await search(edge, viewer, limit=2, **query, **cursor)
            found += [item["notification_id"] for item in page["items"]]
            if page["next_cursor"] is None:
                break
            cursor = {"cursor": page["next_cursor"]}
        assert found == list(map(str, reversed(made))), query


async def test_a_status_finds_its_states_and_each_delivery_shows_its_own(edge: Edge) -> None:
    viewer = await edge.key(Role.VIEWER)
    made = {
        state: await add_notification(edge.pool, external_id=f"{number}-0")
        for number, state in enumerate(State)
    }
    for state, notification_id in made.items():
        for address in ("a@example.com", "b@example.com"):
            await add_delivery(
                edge.pool,
                None,
                address=address,
                notification_id=notification_id,
                state=state,
                reason="no_address" if state is State.SKIPPED else None,
                channel="email",
            )

    for status in Status:
        found: list[Any] = []
        cursor: dict[str, str] = {}
        while True:
            page = await search(edge, viewer, status=status, limit=1, **cursor)
            found += page["items"]
            if page["next_cursor"] is None:
                break
            cursor = {"cursor": page["next_cursor"]}
        wanted = [str(made[state]) for state in reversed(State) if STATUS_OF.get(state) == status]
        assert [item["notification_id"] for item in found] == wanted
    items = (await search(edge, viewer))["items"]
    shown = [
        (await edge.http.get(f"{PATH}/{each}", headers=viewer)).json() for each in reversed(made.values())
    ]

    for listed, whole, state in zip(items, shown, reversed(State), strict=True):
        assert listed["external_id"] == whole["external_id"] == f"{list(State).index(state)}-0"
        for delivery in (*listed["deliveries"], *whole["deliveries"]):
            assert (delivery["state"], delivery["status"]) == (state, STATUS_OF.get(state))
        assert {each["route_id"] for each in listed["deliveries"]} == {
            "email:email:a@example.com",
            "email:email:b@example.com",
        }
    contradiction = await edge.http.get(PATH, params={"state": "sent", "status": "failed"}, headers=viewer)
    assert (contradiction.status_code, faults(contradiction)) == (422, {"status": "contradiction"})


async def test_a_notification_is_shown_by_the_id_of_its_stream_entry(edge: Edge) -> None:
    producer, viewer = await edge.key(Role.PRODUCER, "billing"), await edge.key(Role.VIEWER)
    own = await add_notification(edge.pool, producer="billing", external_id="1700000000000-0")
    other = await add_notification(edge.pool, producer="shop", external_id="1700000000000-0")
    alone = await add_notification(edge.pool, producer="shop", external_id="1700000000001-0")

    async def show(headers: Mapping[str, str], reference: str) -> tuple[int, str]:
        answer = await edge.http.get(f"{PATH}/{reference}", headers=headers)
        return answer.status_code, answer.json().get("notification_id") or answer.json()["detail"]

    assert await show(producer, "1700000000000-0") == (200, str(own))
    assert await show(viewer, "1700000000001-0") == (200, str(alone))
    ambiguous, detail = await show(viewer, "1700000000000-0")
    assert ambiguous == 422
    assert detail.endswith(f"show one: {other}, {own}.")
    for unknown in ("1700000000001-0", "9-9", "0-0%00", "%F0%9F%98%80", "x" * 5_000):
        assert (await show(producer, unknown))[0] == 404


async def test_a_producer_sees_its_own_and_an_operator_sees_all(edge: Edge) -> None:
    own = await add_notification(edge.pool, producer="billing")
    await add_notification(edge.pool, producer="shop")
    producer, operator = await edge.key(Role.PRODUCER, "billing"), await edge.key(Role.OPERATOR, "ops")

    refused = await edge.http.get(PATH, params={"producer": "shop"}, headers=producer)

    assert [each["notification_id"] for each in (await search(edge, producer))["items"]] == [str(own)]
    assert len((await search(edge, producer, producer="billing"))["items"]) == 1
    assert len((await search(edge, operator))["items"]) == 2
    assert (refused.status_code, refused.json()["code"]) == (403, "not_allowed")


async def test_what_was_pruned_is_found_with_the_time_of_it(edge: Edge) -> None:
    await add_notification(edge.pool, pruned_at=NOW)

    (item,) = (await search(edge, await edge.key(Role.VIEWER)))["items"]

    assert (item["pruned_at"], item["deliveries"]) == ("2026-03-01T12:00:00Z", [])


async def test_every_fault_of_a_query_is_listed_with_what_is_known(edge: Edge) -> None:
    headers = await edge.key(Role.VIEWER)
    wrong = {"state": "failed", "colour": "red", "cursor": "x", "limit": "101", "from": "yesterday"}

    answer = await edge.http.get(PATH, params=wrong, headers=headers)
    turned = {"from": "2026-03-01T12:00:00Z", "to": "0001-01-01T00:00:00Z"}
    far = await edge.http.get(PATH, params=turned, headers=headers)

    assert answer.status_code == 422
    assert faults(answer) == dict.fromkeys(wrong, "invalid") | {"colour": "unknown"}
    messages = {each["field"]: each["message"] for each in answer.json()["errors"]}
    assert messages["state"] == f"must be one of {', '.join(State)}"
    assert messages["colour"].startswith("is not known here; known are user, type, state, status, reason,")
    assert (far.status_code, faults(far)) == (422, {"to": "out_of_range"})


@pytest.mark.parametrize(
    "given",
    [
        DeliveryFilter(type="rare"),
        DeliveryFilter(key_prefix="rare"),
        DeliveryFilter(channel="email"),
        DeliveryFilter(code="INTERNAL", channel="email"),
        DeliveryFilter(state=State.DEAD, type="rare"),
        DeliveryFilter(status=Status.DEAD_LETTER, type="rare"),
        DeliveryFilter(type="rare", channel="email"),
    ],
)
async def test_what_is_rare_is_found_in_several_bounded_searches(pool: Pool, given: DeliveryFilter) -> None:
    rare = await add_notification(pool, type="rare", idempotency_key="rare-1")
    failed: dict[str, Any] = {"state": "dead", "settled_at": NOW, "last_error_code": "INTERNAL"}
    await add_delivery(pool, notification_id=rare, channel="email", lane="smtp", **failed)
    await _add_many(pool, MANY)

    pages = await _pages(pool, given)

    assert [[item.notification_id for item in page.items] for page in pages] == [[], [], [rare]]
    first, second, last = pages
    assert first.searched_to is not None
    assert second.searched_to is not None
    assert first.searched_to >= second.searched_to
    assert last.searched_to is None


async def test_a_window_that_is_slower_than_those_before_is_given_up(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rare = await add_notification(pool, type="rare", accepted_at=utc_now())
    await _add_many(pool, MANY)
    find, calls = store.find, 0

    async def slow_at_second(connection: Connection, *arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 2:
            await connection.execute("select pg_sleep(60)")
        return await find(connection, *arguments)

    monkeypatch.setattr(store, "find", slow_at_second)
    given = DeliveryFilter(type="rare", channel="push")
    await add_delivery(pool, notification_id=rare)

    async with pool.acquire() as connection:
        first = await engine.search(connection, given, utc_now(), budget=5.0)
        # The connection goes on to serve.
        last = await engine.search(connection, given, utc_now(), cursor=first.next_cursor, budget=5.0)

    assert (first.items, first.next_cursor is not None) == ([], True)
    assert [item.notification_id for item in last.items] == [rare]


@pytest.mark.parametrize(
    "given",
    [
        DeliveryFilter(type="t", channel="email"),
        DeliveryFilter(producer="shop", provider="smtp"),
        DeliveryFilter(since=NOW, state=State.PENDING),
    ],
)
async def test_notifications_to_many_are_searched_a_bounded_number_of_deliveries_at_a_time(
    pool: Pool, given: DeliveryFilter
) -> None:
    rare = await add_notification(pool, type="t", accepted_at=utc_now())
    await add_delivery(pool, notification_id=rare, channel="email", lane="smtp")
    await _add_many(pool, 20, CROWD)

    pages = await _pages(pool, given)

    assert [item.notification_id for page in pages for item in page.items] == [rare]
    assert len(pages) >= 20 * CROWD // engine._FIRST_WINDOW


async def test_the_deliveries_of_a_notification_are_listed_in_the_order_of_their_ids(edge: Edge) -> None:
    made = await add_notification(edge.pool)
    ids = [await add_delivery(edge.pool, user, notification_id=made) for user in ("eve", "ada", "bob")]

    (item,) = (await search(edge, await edge.key(Role.VIEWER), channel="push"))["items"]

    assert [each["delivery_id"] for each in item["deliveries"]] == list(map(str, ids))


async def _pages(pool: Pool, given: DeliveryFilter) -> list[SearchPage]:
    """Search to the end without time for more than one window a page."""
    pages: list[SearchPage] = []
    cursor = None
    async with pool.acquire() as connection:
        while cursor is not None or not pages:
            page = await engine.search(connection, given, utc_now(), cursor=cursor, budget=0)
            pages.append(page)
            cursor = page.next_cursor
    return pages


async def _add_many(pool: Pool, notifications: int, deliveries: int = 1) -> None:
    """Add notifications, each with dead deliveries."""
    await pool.execute(
        """
        with made as (
            insert into notifications (
                id, producer, idempotency_key, fingerprint, type, version, audience, payload, accepted_at
            )
            select
                (lpad(to_hex((extract(epoch from now()) * 1000)::bigint + 1000), 12, '0')
                || '7000800000000' || lpad(to_hex(number), 7, '0'))::uuid,
                'shop', number, 'f', 't', 1, '{}', '{}', now()
            from generate_series(1, $1) as number
            returning id
        )
        insert into deliveries (
            id, notification_id, channel, lane, user_id, state, last_error_code, due_at, created_at,
            settled_at
        )
        select gen_random_uuid(), id, 'push', 'fcm', 'bob-' || one, 'dead', 'INTERNAL', now(), now(), now()
        from made
        cross join generate_series(1, $2) as one
        """,
        notifications,
        deliveries,
    )
