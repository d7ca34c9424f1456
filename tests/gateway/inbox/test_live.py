"""Whoever looks at their inbox sees what comes and what changes, in every tab, and nothing of others."""

import asyncio

import pytest

from tests.gateway.clients import RunningGateway, bearer, running_gateway
from tests.gateway.inbox.boxes import deliver, mark, sse, websocket
from tests.inboxes import add_items
from tests.rows import NOW
from tests.waiting import until
from tocsin.gateway.inbox.live import Database
from tocsin.store.inbox import marks
from tocsin.store.pool import Pool


async def test_a_new_item_reaches_every_tab_of_its_person_and_nobody_else(
    live: RunningGateway, pool: Pool
) -> None:
    async with sse(live) as first, websocket(live) as second, sse(live, "bob") as other:
        for tab in (first, other):
            await tab.live()
        await second.live()
        mine, his = await deliver(pool, "ada", "bob")

        body = (await first.next()).body
        assert (body["event"], body["item"]["id"]) == ("item.created", str(mine))
        assert (body["unread"], body["unseen"]) == (1, 1)
        assert await second.message() == body
        assert (await other.next()).body["item"]["id"] == str(his)


async def test_a_change_in_one_tab_is_seen_in_the_other(live: RunningGateway, pool: Pool) -> None:
    first, second = await add_items(pool, "ada", 2)
    async with sse(live) as tab:
        await tab.live()
        await mark(pool, "ada", first, "read")
        await mark(pool, "ada", first, "read")
        await mark(pool, "ada", second, "archive")
        async with pool.acquire() as connection:
            await marks.mark_all(connection, "ada", "read", NOW, category="orders")
            await marks.mark_all(connection, "ada", "seen", NOW)
        await deliver(pool, "ada")

        read, archived, created = [(await tab.next()).body for _ in range(3)]

    # A change that changed nothing is no event; counts are of the moment when they were read.
    assert (read["event"], read["item"]["id"]) == ("item.changed", str(first))
    assert (archived["item"]["id"], archived["item"]["archived_at"] is None) == (str(second), False)
    assert created["event"] == "item.created"


async def test_all_that_are_read_at_once_are_one_event(live: RunningGateway, pool: Pool) -> None:
    made = await add_items(pool, "ada", 3)
    async with websocket(live) as tab:
        await tab.live()
        async with pool.acquire() as connection:
            await marks.mark_all(connection, "ada", "read", NOW, up_to=made[1], category="orders")

        event = await tab.message()

    assert event.pop("id")
    assert event == {
        "event": "items.changed",
        "change": "read",
        "up_to": str(made[1]),
        "category": "orders",
        "at": "2026-03-01T12:00:00Z",
        "unread": 1,
        "unseen": 1,
    }


async def test_a_tab_that_reconnects_gets_what_it_missed(live: RunningGateway, pool: Pool) -> None:
    async with sse(live) as other_tab:
        await other_tab.live()
        async with sse(live) as tab:
            await tab.live()
            await deliver(pool, "ada")
            seen = await tab.next()
        missed = await deliver(pool, "ada")
        assert (await other_tab.next()).id == seen.id
        await other_tab.next()

        async with sse(live, last_event_id=seen.id) as again:
            body = (await again.next()).body

    assert (body["event"], body["item"]["id"]) == ("item.created", str(missed[0]))


async def test_who_missed_something_while_nobody_read_it_is_told_to_look_again(
    live: RunningGateway, pool: Pool
) -> None:
    async with sse(live) as tab:
        await tab.live()
        last = tab.last_event_id
    assert live.gateway.inbox is not None
    await until(lambda: not live.gateway.inbox.sessions.has_user("ada"))  # type: ignore[union-attr]
    async with sse(live, "bob") as bystander:
        await bystander.live()
        await deliver(pool, "ada", "bob")
        await bystander.next()

        async with sse(live, last_event_id=last) as again:
            frame = await again.next()
        async with sse(live, "eve", last_event_id=last) as unconcerned:
            await unconcerned.live()

    assert (frame.event, frame.data) == ("reset", "{}")


async def test_a_position_of_another_process_is_answered_by_a_reset(
    live: RunningGateway, database: Database
) -> None:
    async with running_gateway("", "unused", database=database) as other, sse(other) as tab:
        await tab.live()
        position = tab.last_event_id
        async with sse(live, last_event_id=position) as here:
            assert (await here.next()).event == "reset"
    for far in ("1-1", "18446744073709551615-0"):
        async with sse(live, last_event_id=far) as here:
            assert (await here.next()).event == "reset"


@pytest.mark.parametrize("last_event_id", ["x", "1-1-1", "-1-0", "99999999999999999999999-0", "1-1'"])
async def test_a_position_that_is_none_is_refused(live: RunningGateway, last_event_id: str) -> None:
    async with live.http.get(
        f"{live.url}/v1/inbox/stream",
        headers={"Last-Event-ID": last_event_id} | bearer(),
    ) as answer:
        assert (answer.status, (await answer.json())["code"]) == (422, "invalid_query")


async def test_after_the_connection_was_lost_everybody_is_told_to_look_again(
    live: RunningGateway, pool: Pool
) -> None:
    async with sse(live) as tab:
        await tab.live()
        lost = await pool.fetchval(
            "select count(pg_terminate_backend(pid)) from pg_stat_activity"
            " where datname = current_database() and query ilike 'listen%' and pid <> pg_backend_pid()"
        )
        assert lost
        assert (await tab.next()).event == "reset"
        (item,) = await deliver(pool, "ada")
        assert (await tab.next()).body["item"]["id"] == str(item)


async def test_a_notice_that_nobody_can_read_is_skipped(live: RunningGateway, pool: Pool) -> None:
    async with sse(live) as tab:
        await tab.live()
        for payload in ("", "[", '[["created", "ada"]]', '[["gone", "ada", "x"]]', "[7]"):
            await pool.execute("select pg_notify(current_schema() || '_inbox', $1)", payload)
        (item,) = await deliver(pool, "ada")

        assert (await tab.next()).body["item"]["id"] == str(item)


async def test_a_notice_about_an_item_of_somebody_else_shows_nothing(
    live: RunningGateway, pool: Pool
) -> None:
    (his,) = await add_items(pool, "bob", 1)
    async with sse(live) as tab:
        await tab.live()
        payload = f'[["created", "ada", "{his}"]]'
        await pool.execute("select pg_notify(current_schema() || '_inbox', $1)", payload)
        (item,) = await deliver(pool, "ada")

        assert (await tab.next()).body["item"]["id"] == str(item)


async def test_many_items_at_once_all_arrive_in_order(live: RunningGateway, pool: Pool) -> None:
    async with websocket(live) as tab:
        await tab.live()
        made = await deliver(pool, *["ada"] * 800)

        arrived = [(await tab.message())["item"]["id"] for _ in made]

    assert arrived == [str(each) for each in made]


async def test_nobody_connects_without_a_token_or_elsewhere(live: RunningGateway) -> None:
    for path, status in (("/v1/inbox/stream", 401), ("/v1/inbox/streams", 404), ("/v1/events", 404)):
        async with live.http.get(f"{live.url}{path}") as answer:
            assert answer.status == status, path


async def test_a_stop_ends_the_sessions(live: RunningGateway) -> None:
    async with sse(live) as tab, websocket(live) as other:
        await tab.live()
        await other.live()
        live.stop.set()

        assert (await tab.next()).body["reason"] == "restart"
        last, code = await other.end()
    assert (last["reason"], code) == ("restart", 1012)


async def test_twenty_people_at_once_get_their_own(live: RunningGateway, pool: Pool) -> None:
    async def opened(number: int) -> None:
        async with sse(live, f"user{number}") as tab:
            await tab.live()
            (item,) = await deliver(pool, f"user{number}")
            assert (await tab.next()).body["item"]["id"] == str(item)

    await asyncio.gather(*map(opened, range(20)))
