"""From an accepted intent to the streams of a gateway and a mail service."""

import importlib
import sys
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from tests.engine.hand_off.galaxy import ADMIN, COMMANDS, EVENTS, GALAXY, PROVIDERS, TURN, Galaxy
from tests.waiting import found
from tocsin.domain.intent import Audience, Intent
from tocsin.engine.accept.planner import Planner
from tocsin.engine.health.settings import HealthSettings
from tocsin.engine.inspect.explain import Explainer
from tocsin.wire.notifications import Explanation

QUICK = HealthSettings(rest_seconds=0.1, longest_rest_seconds=0.1, least_attempts=2)


@pytest.fixture
def read_event(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Read a body by the code that flatc generated."""
    monkeypatch.syspath_prepend(str(GALAXY / "tables"))
    module = importlib.import_module("notification.GameTurnReadyEvent")
    yield lambda body: module.GameTurnReadyEvent.GetRootAs(body, 0)
    for name in [name for name in sys.modules if name.partition(".")[0] == "notification"]:
        del sys.modules[name]


async def test_both_channels_reach_their_streams_under_the_id_of_the_source(
    galaxy: Galaxy, read_event: Any
) -> None:
    await galaxy.person("ada", locale="fr")
    notification_id = await galaxy.accept("ada")
    entry_id = "1767225600000-7"
    await galaxy.stage.pool.execute("update notifications set external_id = $1", entry_id)

    async with galaxy.working():
        rows = await galaxy.stage.settled(notification_id, "sent")

    (event,), (command,) = await galaxy.entries(EVENTS), await galaxy.entries(COMMANDS)
    body = read_event(event["payload_bytes"])
    assert (body.GameId(), body.TurnNumber()) == (b"game-7", 12)
    assert msgspec.json.decode(command["payload_json"]) == {
        "to": ["ada@example.org"],
        "cc": [],
        "bcc": [],
        "reply_to": [],
        "attachments": [],
        "template_id": "game.turn.ready",
        "locale": "en",
        "variables": TURN,
    }
    accepted_at = await galaxy.stage.pool.fetchval("select accepted_at from notifications")
    assert {name: value.decode() for name, value in event.items() if name != "payload_bytes"} == {
        "user_id": "ada",
        "event_type": "game.turn.ready",
        "event_id": f"{entry_id}/push:user:ada",
        "request_id": "request-1",
        "trace_id": "trace-1",
    }
    assert {name: value.decode() for name, value in command.items() if name != "payload_json"} == {
        "delivery_id": f"{entry_id}/email:user:ada",
        "source": "notification",
        "payload_mode": "template",
        "idempotency_key": f"notification:{entry_id}/email:user:ada",
        "requested_at_ms": str(int(accepted_at.timestamp() * 1_000)),
        "request_id": "request-1",
        "trace_id": "trace-1",
    }
    assert {(row["channel"], row["provider"], row["lane"], row["attempts"]) for row in rows} == {
        ("push", "gateway_stream", "gateway_stream", 1),
        ("email", "mail_stream", "mail_stream", 1),
    }


async def test_an_administrator_gets_a_command_by_the_notifications_own_id(galaxy: Galaxy) -> None:
    failed = {"game_id": "game-7", "game_name": "Nova", "failure_reason": "out of memory"}
    notification_id = await galaxy.accept(
        type="game.generation_failed", audience=Audience(admins=True), payload=failed
    )

    async with galaxy.working():
        await galaxy.stage.settled(notification_id, "sent", "skipped")

    (command,) = await galaxy.entries(COMMANDS)
    assert command["delivery_id"].decode() == f"{notification_id}/email:email:{ADMIN}"
    assert msgspec.json.decode(command["payload_json"])["to"] == [ADMIN]
    assert await galaxy.entries(EVENTS) == []
    by_channel = await galaxy.by_channel(notification_id)
    assert by_channel["push"]["state"] == "skipped"


async def test_each_channel_has_its_budget_and_its_backoff_and_leaves_the_other_alone(
    galaxy: Galaxy,
) -> None:
    """By moving the clock to each next attempt: 1, 2, 4 … seconds after the last, without jitter."""
    await galaxy.person("ada")
    await galaxy.redis.set(EVENTS, "no stream")
    await galaxy.redis.set(COMMANDS, "no stream")
    notification_id = await galaxy.accept("ada")
    pool, clock = galaxy.stage.pool, galaxy.stage.clock
    delays: dict[str, list[float]] = {"push": [], "email": []}
    async with galaxy.working():
        for attempt, state in [(number, "retrying") for number in range(1, 7)] + [(7, "dead")]:

            async def tried(attempt: int = attempt, state: str = state) -> Any:
                by_channel = await galaxy.by_channel(notification_id)
                email = by_channel["email"]
                push = by_channel["push"]
                is_done = push["attempts"] == min(attempt, 3) and push["lease"] is None
                return is_done and (email["attempts"], email["state"]) == (attempt, state) and by_channel

            rows = await found(tried)
            for channel, row in rows.items():
                if row["state"] == "retrying" and row["attempts"] == attempt:
                    at = await pool.fetchval(
                        "select at from attempts where delivery_id = $1 order by at desc limit 1", row["id"]
                    )
                    delays[channel].append((row["due_at"] - at).total_seconds())
            if attempt == 3:
                assert rows["push"]["state"] == "dead"
            clock.advance(timedelta(seconds=2 ** (attempt - 1)))
    by_channel = await galaxy.by_channel(notification_id)

    assert delays["push"] == pytest.approx([1, 2], abs=0.2)
    assert delays["email"] == pytest.approx([1, 2, 4, 8, 16, 32], abs=0.2)
    assert (by_channel["push"]["attempts"], by_channel["email"]["attempts"]) == (3, 7)
    assert by_channel["push"]["last_error_code"] == "gateway_stream_publish_failed"
    assert by_channel["email"]["last_error_code"] == "mail_stream_publish_failed"
    circuits = await pool.fetch("select * from circuits where state <> 'closed'")
    assert circuits == []


async def test_a_stream_that_refuses_leaves_the_other_alone_until_it_is_mended(galaxy: Galaxy) -> None:
    await galaxy.person("ada")
    await galaxy.redis.set(EVENTS, "no stream")
    notification_id = await galaxy.accept("ada")
    async with galaxy.working():

        async def email_sent() -> Any:
            by_channel = await galaxy.by_channel(notification_id)
            push = by_channel["push"]
            return by_channel["email"]["state"] == "sent" and push["attempts"] == 1 and push["lease"] is None

        await found(email_sent)
        await galaxy.redis.delete(EVENTS)
        galaxy.stage.clock.advance(timedelta(seconds=1))
        await galaxy.stage.settled(notification_id, "sent")

    (event,) = await galaxy.entries(EVENTS)
    assert event["event_id"].decode() == f"{notification_id}/push:user:ada"


async def test_a_payload_that_does_not_fit_ends_alone(galaxy: Galaxy) -> None:
    await galaxy.person("ada")
    good = await galaxy.accept("ada", key="good")
    bad = await galaxy.accept("ada", key="bad", payload={**TURN, "turn_number": 7})
    # As a producer of an older schema stored it.
    await galaxy.stage.pool.execute(
        "update notifications set payload = jsonb_set(payload, '{turn_number}', '\"seven\"') where id = $1",
        bad,
    )

    async with galaxy.working():
        await galaxy.stage.settled(good, "sent")
        await galaxy.stage.settled(bad, "sent", "rejected")

    push = (await galaxy.by_channel(bad))["push"]
    assert (push["state"], push["last_error_code"]) == ("rejected", "payload_encoding_failed")
    assert "turn_number of notification.GameTurnReadyEvent cannot hold this str" in push["last_error"]
    assert len(await galaxy.entries(EVENTS)) == 1


async def test_redis_away_opens_the_circuit_breakers_and_everything_goes_out_once_it_is_back(
    galaxy: Galaxy,
) -> None:
    users = [f"u{number}" for number in range(40)]
    for user in users:
        await galaxy.person(user)
    pool = galaxy.stage.pool
    async with galaxy.working(QUICK):
        first = await galaxy.accept("u0", key="first")
        await galaxy.stage.settled(first, "sent")
        await galaxy.server.kill()
        before = [await galaxy.accept(user, key=f"before-{user}") for user in users[:10]]

        async def open_circuits() -> bool:
            names = await pool.fetch("select name from circuits where state <> 'closed'")
            return {row["name"] for row in names} == {"gateway_stream", "mail_stream"}

        await found(open_circuits)
        during = [await galaxy.accept(user, key=f"during-{user}") for user in users[10:]]
        await galaxy.server.start()
        galaxy.stage.clock.advance(timedelta(seconds=10))
        for notification_id in (*before, *during):
            await galaxy.stage.settled(notification_id, "sent")

    # Nothing was sent while it was away: the one attempt is that which succeeded.
    assert await pool.fetchval("select max(attempts) from deliveries") == 1
    for stream, field in ((EVENTS, "event_id"), (COMMANDS, "delivery_id")):
        ids = [entry[field] for entry in await galaxy.entries(stream)]
        assert len(set(ids)) == 41
        assert len(ids) == 41


async def test_explain_says_where_it_would_go_without_a_device(galaxy: Galaxy) -> None:
    await galaxy.person("ada")
    stage = galaxy.stage
    rules = msgspec.structs.replace(stage.rules(), providers=frozenset({"gateway_stream", "mail_stream"}))
    explainer = Explainer(Planner(stage.catalog, PROVIDERS, {}, stage.toggles), rules)
    intent = Intent(
        type="game.turn.ready", audience=Audience(users=["ada"]), payload=TURN, idempotency_key="k"
    )

    async with stage.pool.acquire() as connection:
        explanation = await explainer.explain(connection, "game_master", intent, stage.clock())

    assert isinstance(explanation, Explanation)
    assert {
        (route.route_id, route.outcome, *((each.device_id, each.provider) for each in route.devices))
        for route in explanation.routes
    } == {
        ("push:user:ada", "sent", (None, "gateway_stream")),
        ("email:user:ada", "sent", (None, "mail_stream")),
    }
