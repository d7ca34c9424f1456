"""What a stream may hand in by the catalog of the galaxy service, and the codes of what it may not."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.ingress.redis_streams.conftest import Galaxy
from tocsin.catalog.catalog import Catalog
from tocsin.catalog.load import load_catalog
from tocsin.catalog.preview import example_payload
from tocsin.engine.accept.planner import Planner

FOLDER = Path(__file__).parents[3] / "examples" / "galaxy" / "catalog"
KINDS = {"users": "user", "admins": "admin_email"}


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return load_catalog(FOLDER)


@pytest.fixture(autouse=True)
def planner(galaxy: Galaxy, catalog: Catalog) -> Planner:
    admins = {"geo_review_recommended": ["ops@example.com"], "game.generation_failed": []}
    galaxy.planner = msgspec.structs.replace(galaxy.planner, catalog=catalog, admins=admins)
    return galaxy.planner


def entry(type_name: str, kind: str, payload: Any, **changes: str | None) -> dict[str, str | None]:
    fields: dict[str, str | None] = {
        "notification_type": type_name,
        "audience_kind": kind,
        "payload_json": msgspec.json.encode(payload).decode(),
    }
    if kind == "admin_email":
        fields["recipient_user_ids_json"] = None
    return fields | changes


async def test_each_type_is_accepted_for_its_audiences_with_all_of_its_fields_and_no_fewer(
    galaxy: Galaxy, catalog: Catalog
) -> None:
    accepted: dict[str, str] = {}
    refused: dict[str, tuple[str, list[dict[str, str]]]] = {}
    for name, type_ in catalog.types.items():
        payload = example_payload(catalog, type_)
        for kind, wire_kind in KINDS.items():
            key = f"{name} {kind}"
            await galaxy.append(key=key, **entry(name, wire_kind, payload))
            if kind in (type_.audiences or {}):
                accepted[key] = name
                continue
            message = f"{name} is not for {kind}; it is for: {', '.join(type_.audiences or {})}"
            fault = {"field": "audience", "code": "audience_not_allowed", "message": message}
            refused[key] = ("audience_not_allowed", [fault])
        wire_kind = KINDS[next(iter(type_.audiences or {}))]
        for field in type_.payload_schema["required"]:
            key = f"{name} without {field}"
            less = {each: value for each, value in payload.items() if each != field}
            last = await galaxy.append(key=key, **entry(name, wire_kind, less))
            fault = {"field": f"payload.{field}", "code": "missing", "message": "is missing"}
            refused[key] = ("invalid_payload", [fault])
    async with galaxy.consuming():
        await galaxy.reaches(last)

    assert {row["idempotency_key"]: row["type"] for row in await galaxy.notifications()} == accepted
    rows = await galaxy.refused()
    assert {row["idempotency_key"]: (row["code"], row["faults"]) for row in rows} == refused
    assert (len(accepted), len(refused)) == (16, 14 + 50)


CAUSES: list[tuple[dict[str, str | None], str]] = [
    ({"notification_type": "lobby.invite.revoked"}, "unknown_type"),
    ({"audience_kind": "admin_email", "recipient_user_ids_json": None}, "audience_not_allowed"),
    ({"payload_json": "{}"}, "invalid_payload"),
    ({"payload_json": "{"}, "invalid_payload"),
    ({"payload_json": "[]"}, "invalid_payload"),
    ({"payload_json": '{"game_id": 7, "game_name": "x", "turn_number": 1}'}, "invalid_payload"),
    ({"recipient_user_ids_json": '["ada", "ada"]'}, "invalid_intent"),
    ({"audience_kind": "everyone"}, "invalid_intent"),
    ({"occurred_at_ms": "soon"}, "invalid_intent"),
    ({"idempotency_key": None}, "invalid_intent"),
    ({"occurred_at_ms": "soon", "payload_json": "{"}, "invalid_intent"),
    (
        {"audience_kind": "admin_email", "recipient_user_ids_json": None, "payload_json": "{}"},
        "invalid_intent",
    ),
]


async def test_a_refusal_has_the_code_of_its_cause(galaxy: Galaxy) -> None:
    payload = {"game_id": "7", "game_name": "Perseus Arm", "turn_number": 42}
    expected = {}
    for number, (changes, code) in enumerate(CAUSES):
        fields = entry("game.turn.ready", "user", payload, **changes)
        expected[await galaxy.append(key=str(number), **fields)] = code
    async with galaxy.consuming():
        await galaxy.reaches(list(expected)[-1])

    refused = {row["content"]["stream_entry_id"]: row["code"] for row in await galaxy.refused()}
    assert refused == expected
    assert not await galaxy.notifications()


async def test_the_slots_are_those_of_the_matrix(galaxy: Galaxy, catalog: Catalog) -> None:
    expected = {}
    for name, kind in (
        ("lobby.application.submitted", "user"),
        ("lobby.invite.expired", "user"),
        ("geo.review_recommended", "admin_email"),
        ("game.generation_failed", "admin_email"),
    ):
        payload = example_payload(catalog, catalog.types[name])
        expected[await galaxy.append(key=name, **entry(name, kind, payload))] = name
    async with galaxy.consuming():
        await galaxy.reaches(list(expected)[-1])

    rows = await galaxy.pool.fetch(
        "select external_id, channel, user_id, address, state, reason from deliveries "
        "join notifications on notifications.id = notification_id"
    )
    outside = ("skipped", "channel_not_for_audience")
    assert {
        (expected[row["external_id"]], row["channel"], row["user_id"] or row["address"]): (
            row["state"],
            row["reason"],
        )
        for row in rows
    } == {
        ("lobby.application.submitted", "push", "ada"): ("pending", None),
        ("lobby.application.submitted", "email", "ada"): ("pending", None),
        ("lobby.invite.expired", "push", "ada"): outside,
        ("lobby.invite.expired", "email", "ada"): ("pending", None),
        ("geo.review_recommended", "push", "ops@example.com"): outside,
        ("geo.review_recommended", "email", "ops@example.com"): ("pending", None),
        ("game.generation_failed", "email", None): ("skipped", "no_admins_configured"),
    }
