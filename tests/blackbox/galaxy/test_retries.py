"""Retries and dead letters: budgets by channel, delays without jitter, and replays."""

import contextlib
import json
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest

from tests.blackbox.galaxy.rig.document import TYPES
from tests.blackbox.galaxy.rig.system import Notifications
from tests.waiting import found

PUSH_ATTEMPTS, EMAIL_ATTEMPTS = 3, 7
BACKOFF_MIN, BACKOFF_MAX = 0.2, 0.5
LATE = 1.5
"""Seconds that an attempt may come late on a busy machine."""


@contextlib.asynccontextmanager
async def refusing(troubled: Notifications, *streams: str) -> AsyncIterator[None]:
    """Have Redis refuse to append to streams: each is a text meanwhile."""
    for stream in streams:
        kept = f"{stream}:kept"
        if await troubled.redis.exists(stream):
            await troubled.redis.rename(stream, kept)
        await troubled.redis.set(stream, "no stream")
    try:
        yield
    finally:
        for stream in streams:
            # In one command: an entry that is appended between two would be lost.
            if await troubled.redis.exists(f"{stream}:kept"):
                await troubled.redis.rename(f"{stream}:kept", stream)
            else:
                await troubled.redis.delete(stream)


def delays(route: dict[str, Any]) -> list[float]:
    """Return the seconds between the attempts of a route."""
    at = sorted(datetime.fromisoformat(attempt["at"]) for attempt in route["attempts"])
    return [(later - earlier).total_seconds() for earlier, later in pairwise(at)]


def expected_delays(attempts: int) -> list[float]:
    return [min(max(BACKOFF_MIN * 2**number, BACKOFF_MIN), BACKOFF_MAX) for number in range(attempts - 1)]


async def test_a_route_that_fails_is_retried_within_its_budget_and_then_a_dead_letter(
    troubled: Notifications,
) -> None:
    ada = troubled.player()

    async with refusing(troubled, troubled.client_events, troubled.mail_commands):
        entry_id = await troubled.append("game.finished", ada)
        routes = await troubled.routes(entry_id, "dead_letter")

    push, email = routes[f"push:user:{ada}"], routes[f"email:user:{ada}"]
    assert (push["attempt_count"], email["attempt_count"]) == (PUSH_ATTEMPTS, EMAIL_ATTEMPTS)
    assert push["last_error_code"] == "gateway_stream_publish_failed"
    assert email["last_error_code"] == "mail_stream_publish_failed"
    for route in (push, email):
        waited = delays(route)
        for seconds, least in zip(waited, expected_delays(route["attempt_count"]), strict=True):
            assert least <= seconds < least + LATE, waited
    dead = {each["channel"]: each for each in await troubled.dead_letters(entry_id)}
    assert dead.keys() == {"push", "email"}
    assert all(each["recovery_hint"] for each in dead.values())


async def test_the_first_attempt_is_made_at_once(troubled: Notifications) -> None:
    entry_id = await troubled.append("game.finished", troubled.player())

    shown = await troubled.accepted(entry_id)
    routes = await troubled.routes(entry_id, "published")
    accepted_at = datetime.fromisoformat(shown["accepted_at"])
    for route in routes.values():
        assert datetime.fromisoformat(route["settled_at"]) - accepted_at < timedelta(seconds=3)


async def test_a_dead_letter_leaves_its_sibling_published(troubled: Notifications) -> None:
    ada = troubled.player()

    async with refusing(troubled, troubled.client_events):
        entry_id = await troubled.append("game.finished", ada)
        routes = await troubled.routes(entry_id)

    assert {route: each["status"] for route, each in routes.items()} == {
        f"push:user:{ada}": "dead_letter",
        f"email:user:{ada}": "published",
    }
    assert len(await troubled.commands(entry_id)) == 1


async def test_a_route_is_failed_until_it_is_published_or_dead(troubled: Notifications) -> None:
    ada = troubled.player()
    route = f"email:user:{ada}"

    async with refusing(troubled, troubled.mail_commands):
        entry_id = await troubled.append("game.finished", ada)

        async def has_failed() -> bool:
            shown = await troubled.shown(entry_id) or {"deliveries": []}
            return any(each["status"] == "failed" and each["due_at"] for each in shown["deliveries"])

        await found(has_failed)
    routes = await troubled.routes(entry_id)

    assert routes[route]["status"] == "published"
    assert routes[route]["attempt_count"] > 1
    assert [each["delivery_id"] for each in await troubled.commands(entry_id)] == [f"{entry_id}/{route}"]


async def test_a_payload_that_fits_no_table_is_a_dead_letter_at_once(troubled: Notifications) -> None:
    ada = troubled.player()
    payload = json.dumps({**TYPES["game.turn.ready"].payload, "turn_number": "seven"})

    entry_id = await troubled.append("game.turn.ready", ada, payload_json=payload)

    routes = await troubled.routes(entry_id)
    assert routes[f"push:user:{ada}"]["status"] == "dead_letter"
    assert routes[f"push:user:{ada}"]["last_error_code"] == "payload_encoding_failed"
    assert routes[f"email:user:{ada}"]["status"] == "published"


@pytest.mark.parametrize("replayed_by", ["a new intent", "the operator"])
async def test_a_dead_letter_is_replayed(troubled: Notifications, replayed_by: str) -> None:
    ada = troubled.player()
    async with refusing(troubled, troubled.client_events):
        entry_id = await troubled.append("game.finished", ada)
        await troubled.routes(entry_id)

    if replayed_by == "a new intent":
        again = await troubled.append("game.finished", ada)
        await troubled.routes(again, "published")
        (event,) = await troubled.events(again)
        assert event["event_id"].startswith(again.encode())
        assert len(await troubled.dead_letters(entry_id)) == 1
        return
    notification_id = (await troubled.accepted(entry_id))["notification_id"]
    answer = await troubled.http.post(
        "/v1/admin/dead-letters/replay",
        headers=troubled.key,
        json={"filter": {"notification_id": notification_id}},
    )
    assert answer.status_code == 202, answer.text
    await troubled.routes(entry_id, "published")
    (event,) = await troubled.events(entry_id)
    assert event["event_id"] == f"{entry_id}/push:user:{ada}".encode()
