"""The e-mail contract toward the mail service: template-mode commands for users and administrators."""

import json
from datetime import datetime
from typing import Any

import pytest

from tests.blackbox.galaxy.rig.document import TYPES
from tests.blackbox.galaxy.rig.system import Notifications

FIELDS = {
    "delivery_id",
    "source",
    "payload_mode",
    "idempotency_key",
    "requested_at_ms",
    "payload_json",
}


async def command_and_payload(
    galaxy: Notifications, name: str, *user_ids: str, **changes: str
) -> tuple[str, dict[str, str], dict[str, Any]]:
    entry_id = await galaxy.append(name, *user_ids, **changes)
    await galaxy.routes(entry_id)
    (command,) = await galaxy.commands(entry_id)
    return entry_id, command, json.loads(command["payload_json"])


async def test_a_command_names_its_delivery_its_source_and_its_key(galaxy: Notifications) -> None:
    ada = galaxy.player()

    entry_id, command, _ = await command_and_payload(galaxy, "game.finished", ada)

    route = f"{entry_id}/email:user:{ada}"
    assert command.keys() == FIELDS
    assert command["delivery_id"] == route
    assert command["idempotency_key"] == f"notification:{route}"
    assert (command["source"], command["payload_mode"]) == ("notification", "template")
    shown = await galaxy.accepted(entry_id)
    accepted_at = datetime.fromisoformat(shown["accepted_at"])
    assert command["requested_at_ms"] == str(int(accepted_at.timestamp() * 1_000))


async def test_request_and_trace_ids_are_forwarded_when_present(galaxy: Notifications) -> None:
    traced = {"request_id": "request-8", "trace_id": "trace-8"}

    _, command, _ = await command_and_payload(galaxy, "game.finished", galaxy.player(), **traced)
    _, without, _ = await command_and_payload(galaxy, "game.finished", galaxy.player())

    assert (command["request_id"], command["trace_id"]) == ("request-8", "trace-8")
    assert not {"request_id", "trace_id"} & without.keys()


@pytest.mark.parametrize("name", [name for name, type_ in TYPES.items() if "user" in type_.channels])
async def test_a_user_gets_the_template_of_the_type_with_the_payload(
    galaxy: Notifications, name: str
) -> None:
    ada = galaxy.player()

    _, _, payload = await command_and_payload(galaxy, name, ada)

    assert payload == {
        "to": [f"{ada}@example.org"],
        "cc": [],
        "bcc": [],
        "reply_to": [],
        "attachments": [],
        "template_id": name,
        "locale": "en",
        "variables": TYPES[name].payload,
    }


async def test_each_administrator_gets_a_mail_of_their_own(galaxy: Notifications) -> None:
    entry_id = await galaxy.append("game.generation_failed")

    routes = await galaxy.routes(entry_id)
    commands = await galaxy.commands(entry_id)
    payloads = [json.loads(command["payload_json"]) for command in commands]
    assert sorted(payload["to"][0] for payload in payloads) == [
        "Night.Shift@example.org",
        "games@example.org",
    ]
    assert {payload["locale"] for payload in payloads} == {"en"}
    assert [payload["variables"] for payload in payloads] == [TYPES["game.generation_failed"].payload] * 2
    assert {command["delivery_id"] for command in commands} == {
        f"{entry_id}/{route}" for route, each in routes.items() if each["status"] == "published"
    }


async def test_variables_are_passed_through_as_they_are(galaxy: Notifications) -> None:
    given = {**TYPES["game.finished"].payload, "winners": [{"name": "Ünal ✨", "score": 1.5}], "draw": None}

    _, _, payload = await command_and_payload(
        galaxy, "game.finished", galaxy.player(), payload_json=json.dumps(given)
    )

    assert payload["variables"] == given
