"""The stable input contract: what is accepted, what is a duplicate, what is refused and kept."""

import json

import pytest

from tests.blackbox.galaxy.rig.document import TYPES
from tests.blackbox.galaxy.rig.system import Notifications, intent
from tests.waiting import found

REQUIRED = (
    "notification_type",
    "producer",
    "audience_kind",
    "idempotency_key",
    "occurred_at_ms",
    "payload_json",
)


async def make_no_routes(galaxy: Notifications, *entry_ids: str) -> bool:
    """Return whether entries that were refused are no notifications and were handed to nobody."""
    return not [
        entry_id
        for entry_id in entry_ids
        if await galaxy.shown(entry_id) or await galaxy.events(entry_id) or await galaxy.commands(entry_id)
    ]


async def test_an_accepted_intent_has_the_id_of_its_entry(galaxy: Notifications) -> None:
    ada = galaxy.player()

    entry_id = await galaxy.append("game.finished", ada, request_id="request-1", trace_id="trace-1")

    shown = await galaxy.accepted(entry_id)
    assert shown["external_id"] == entry_id
    assert (shown["type"], shown["producer"]) == ("game.finished", "game_master")
    assert (shown["request_id"], shown["trace_id"]) == ("request-1", "trace-1")
    await galaxy.routes(entry_id, "published")
    (event,) = await galaxy.events(entry_id)
    assert event["event_id"] == f"{entry_id}/push:user:{ada}".encode()


async def test_a_notification_is_kept_with_its_payload_and_its_recipients(galaxy: Notifications) -> None:
    ada = galaxy.player()

    for_users = await galaxy.accepted(await galaxy.append("game.finished", ada))
    for_administrators = await galaxy.accepted(await galaxy.append("geo.review_recommended"))

    assert for_users["payload"] == TYPES["game.finished"].payload
    assert for_users["audience"] == {"users": [ada]}
    assert for_users["occurred_at"].startswith("2026-01-01T00:00:00")
    assert for_administrators["audience"] == {"admins": True}


@pytest.mark.parametrize("field", REQUIRED)
async def test_every_field_of_the_envelope_is_required(galaxy: Notifications, field: str) -> None:
    entry_id = await galaxy.append("game.finished", galaxy.player(), **{field: None})

    refused = await galaxy.refusal(entry_id)
    assert field in {fault["field"] for fault in refused["faults"]}
    assert await make_no_routes(galaxy, entry_id)


async def test_an_intent_for_users_lists_one_or_more_users(galaxy: Notifications) -> None:
    for listed in (None, "[]", "{}", "ada"):
        entry_id = await galaxy.append("game.finished", galaxy.player(), recipient_user_ids_json=listed)

        refused = await galaxy.refusal(entry_id)
        assert [fault["field"] for fault in refused["faults"]] == ["recipient_user_ids_json"]
        assert await make_no_routes(galaxy, entry_id)


async def test_an_intent_for_administrators_lists_no_users(galaxy: Notifications) -> None:
    entry_id = await galaxy.append("geo.review_recommended", recipient_user_ids_json='["ada"]')

    refused = await galaxy.refusal(entry_id)
    assert [fault["field"] for fault in refused["faults"]] == ["recipient_user_ids_json"]
    assert await make_no_routes(galaxy, entry_id)


@pytest.mark.parametrize("kind", ["email", "admins", "", "USER"])
async def test_there_is_no_other_audience_kind(galaxy: Notifications, kind: str) -> None:
    entry_id = await galaxy.append("lobby.invite.created", "ada@example.org", audience_kind=kind)

    refused = await galaxy.refusal(entry_id)
    assert [fault["field"] for fault in refused["faults"]] == ["audience_kind"]
    assert await make_no_routes(galaxy, entry_id)


async def test_a_user_who_is_listed_twice_is_refused(galaxy: Notifications) -> None:
    ada = galaxy.player()

    entry_id = await galaxy.append("game.finished", ada, ada)

    refused = await galaxy.refusal(entry_id)
    assert [fault["code"] for fault in refused["faults"]] == ["repeated"]
    assert await make_no_routes(galaxy, entry_id)


async def test_the_order_of_users_does_not_make_another_intent(galaxy: Notifications) -> None:
    ada, bob = galaxy.player(), galaxy.player()
    first = await galaxy.append("game.finished", ada, bob, idempotency_key=f"of-{ada}")

    again = await galaxy.append("game.finished", bob, ada, idempotency_key=f"of-{ada}")

    await assert_duplicate(galaxy, first, again)


async def test_request_and_trace_ids_do_not_make_another_intent(galaxy: Notifications) -> None:
    ada = galaxy.player()
    key = {"idempotency_key": f"of-{ada}"}
    first = await galaxy.append("game.finished", ada, **key, request_id="one", trace_id="two")

    again = await galaxy.append("game.finished", ada, **key, request_id="three")

    await assert_duplicate(galaxy, first, again)


async def test_white_space_and_the_order_of_keys_do_not_make_another_payload(galaxy: Notifications) -> None:
    ada = galaxy.player()
    payload = {**TYPES["game.finished"].payload, "standings": ["Terrans", "Vogons"]}
    fields = intent("game.finished", ada, payload_json=json.dumps(payload))
    turned = dict(reversed(payload.items()))
    first = await galaxy.append("game.finished", ada, **fields)

    again = await galaxy.append(
        "game.finished", ada, **{**fields, "payload_json": json.dumps(turned, indent=4)}
    )

    await assert_duplicate(galaxy, first, again)


async def test_the_order_of_an_array_makes_another_payload(galaxy: Notifications) -> None:
    ada = galaxy.player()
    payload = {**TYPES["game.finished"].payload, "standings": ["Terrans", "Vogons"]}
    fields = intent("game.finished", ada, payload_json=json.dumps(payload))
    first = await galaxy.append("game.finished", ada, **fields)
    payload["standings"] = ["Vogons", "Terrans"]

    other = await galaxy.append("game.finished", ada, **{**fields, "payload_json": json.dumps(payload)})

    assert (await galaxy.refusal(other))["code"] == "idempotency_conflict"
    assert await galaxy.accepted(first)
    assert await make_no_routes(galaxy, other)


async def test_a_repeat_of_an_intent_is_a_duplicate(galaxy: Notifications) -> None:
    ada = galaxy.player()
    fields = intent("game.turn.ready", ada)
    first = await galaxy.append("game.turn.ready", ada, **fields)

    again = await galaxy.append("game.turn.ready", ada, **fields)

    await assert_duplicate(galaxy, first, again)


async def test_the_keys_of_two_producers_are_apart(galaxy: Notifications) -> None:
    ada = galaxy.player()
    key = {"idempotency_key": f"of-{ada}"}

    first = await galaxy.append("game.finished", ada, **key)
    other = await galaxy.append("game.finished", ada, **key, producer="another_service")

    assert await galaxy.accepted(first)
    assert await galaxy.accepted(other)


async def test_another_content_under_the_same_key_is_a_conflict(galaxy: Notifications) -> None:
    ada = galaxy.player()
    first = await galaxy.append("game.turn.ready", ada, idempotency_key=f"of-{ada}")

    changed = json.dumps({**TYPES["game.turn.ready"].payload, "turn_number": 55})
    other = await galaxy.append("game.turn.ready", ada, idempotency_key=f"of-{ada}", payload_json=changed)

    refused = await galaxy.refusal(other)
    assert refused["code"] == "idempotency_conflict"
    assert (refused["producer"], refused["idempotency_key"]) == ("game_master", f"of-{ada}")
    assert refused["fields"]["payload_json"] == changed
    await galaxy.routes(first, "published")
    assert await make_no_routes(galaxy, other)


async def test_an_unknown_user_refuses_the_intent(galaxy: Notifications) -> None:
    ada = galaxy.player()

    entry_id = await galaxy.append("game.finished", ada, "nobody-has-this-id")

    refused = await galaxy.refusal(entry_id)
    assert refused["code"] == "recipient_not_found"
    assert refused["type"] == "game.finished"
    assert await make_no_routes(galaxy, entry_id)


@pytest.mark.parametrize("name", TYPES)
async def test_every_required_field_of_a_payload_is_required(galaxy: Notifications, name: str) -> None:
    payload = TYPES[name].payload
    users = [galaxy.player()] if "user" in TYPES[name].channels else []
    entry_ids = {}
    for left_out in payload:
        rest = {field: value for field, value in payload.items() if field != left_out}
        entry_ids[left_out] = await galaxy.append(name, *users, payload_json=json.dumps(rest))

    for left_out, entry_id in entry_ids.items():
        refused = await galaxy.refusal(entry_id)
        assert left_out in json.dumps(refused["faults"]), refused
    assert await make_no_routes(galaxy, *entry_ids.values())


async def test_what_is_malformed_is_kept_with_its_raw_fields_and_holds_nobody_up(
    galaxy: Notifications,
) -> None:
    raw = {b"nonsense": b"\xff\x00", b"producer": b"game_lobby"}
    (malformed,) = await galaxy.redis.execute_command(  # type: ignore[no-untyped-call]
        "EVAL",
        "return {redis.call('XADD', KEYS[1], '*', unpack(ARGV))}",
        1,
        galaxy.intents,
        *sum(raw.items(), ()),
    )
    after = await galaxy.append("game.finished", galaxy.player())

    assert await galaxy.accepted(after)
    refused = await galaxy.refusal(malformed.decode())
    assert refused["fields"].keys() == {"nonsense", "producer"}
    assert await make_no_routes(galaxy, malformed.decode())
    await galaxy.process.logged("intent refused", producer="game_lobby")


async def assert_duplicate(galaxy: Notifications, first: str, again: str) -> None:
    """Check that the second entry made nothing, after the one behind it was accepted."""
    after = await galaxy.append("game.finished", galaxy.player())
    assert await galaxy.accepted(after)
    assert await galaxy.accepted(first)
    assert await make_no_routes(galaxy, again)
    answer = await galaxy.http.get("/v1/admin/refused", headers=galaxy.key, params={"limit": 50})
    assert again not in answer.text

    async def is_published() -> bool:
        return bool(await galaxy.events(first))

    await found(is_published)
