"""Erasure and export of a person over HTTP and by the command line."""

import asyncio
from hashlib import sha256
from pathlib import Path
from typing import Any

from tests.edges.command_line import Ran, run
from tests.edges.edge import Edge, person
from tests.rows import NOW
from tocsin.api.auth.roles import Role
from tocsin.domain.ids import uuid7
from tocsin.store.pool import Pool

USER = "/v1/users/ada"
INTENT = {"type": "new_customer", "payload": {"customer_name": "Ali Veli"}}


async def add_ada(edge: Edge) -> None:
    """Store what the app, a producer and the person give of a person."""
    producer = await edge.key(Role.PRODUCER)
    app = person("ada")
    put = await edge.http.put(USER, json={"email": "ada@example.org", "locale": "tr"}, headers=producer)
    device = {"token": "the-token-of-ada", "platform": "ios"}
    registered = await edge.http.post("/v1/devices/register", json=device, headers=app)
    await edge.http.patch("/v1/preferences", json={"customers": {"push": False}}, headers=app)
    for key, users in (("own", ["ada"]), ("shared", ["ada", "bob"])):
        intent = INTENT | {"audience": {"users": users}, "idempotency_key": key}
        await edge.http.post("/v1/notifications", json=intent, headers=producer)
    refused = INTENT | {"audience": {"users": ["ada"]}, "payload": {}, "idempotency_key": "refused"}
    answer = await edge.http.post("/v1/notifications", json=refused, headers=producer)
    assert (put.status_code, registered.status_code, answer.status_code) == (200, 200, 422)


def summary(exported: dict[str, Any]) -> tuple[Any, ...]:
    return (
        exported["directory"] and exported["directory"]["email"],
        exported["preferences"],
        [device["platform"] for device in exported["devices"]],
        [(each["idempotency_key"], each["payload"]) for each in exported["notifications"]],
        len(exported["refused_intents"]),
    )


NOTHING: tuple[Any, ...] = (None, {}, [], [], 0)


async def test_an_operator_exports_and_erases_a_person(edge: Edge) -> None:
    await add_ada(edge)
    operator = await edge.key(Role.OPERATOR)

    exported = await edge.http.get(f"{USER}/export", headers=operator)

    assert (exported.status_code, exported.headers["content-type"]) == (200, "application/json")
    payload = INTENT["payload"]
    assert summary(exported.json()) == (
        "ada@example.org",
        {"customers": {"push": False}},
        ["ios"],
        [("own", payload), ("shared", payload)],
        1,
    )
    assert all(len(each["deliveries"]) == 1 for each in exported.json()["notifications"])
    # Neither credentials nor other people.
    assert "the-token-of-ada" not in exported.text
    assert "bob" not in exported.text

    erased = await edge.http.delete(USER, headers=operator)

    assert erased.status_code == 200
    assert erased.json() == {
        "state": "finished",
        "user_hash": sha256(b"ada").hexdigest(),
        "devices": 1,
        "deliveries": 2,
        "cancelled": 2,
        "payloads": 1,
        "refused_intents": 1,
    }
    assert summary((await edge.http.get(f"{USER}/export", headers=operator)).json()) == NOTHING
    assert (await edge.http.get("/v1/devices", headers=person("ada"))).json() == {"devices": []}
    entries = (await edge.http.get("/v1/admin/audit", headers=operator)).json()["entries"]
    subject = f"user:sha256:{erased.json()['user_hash']}"
    assert [(each["action"], each["subject"]) for each in entries] == [
        ("user.export", subject),
        ("user.erase", subject),
        ("user.export", subject),
    ]
    # What bob got is as it was; the erased recipient is shown as such.
    (bob,) = (await edge.http.get("/v1/users/bob/export", headers=operator)).json()["notifications"]
    assert bob["payload"] == payload
    shown = (await edge.http.get(f"/v1/notifications/{bob['id']}", headers=operator)).json()
    assert {each["recipient"] for each in shown["deliveries"]} == {"erased", "user:bob"}
    assert shown["audience"] == {"users": ["bob"]}

    again = await edge.http.delete(USER, headers=operator)
    assert (again.status_code, again.json()["deliveries"]) == (200, 0)
    # The key was accepted once, and still is.
    repeated = INTENT | {"audience": {"users": ["ada"]}, "idempotency_key": "own"}
    producer = await edge.key(Role.PRODUCER)
    answer = await edge.http.post("/v1/notifications", json=repeated, headers=producer)
    assert answer.json()["status"] == "duplicate"


async def add_refused(pool: Pool, content: str) -> None:
    await pool.execute(
        "insert into refused_intents (id, producer, source, code, type, faults, content, refused_at)"
        " values ($1, 'shop', 'outbox', 'invalid', 'offer', '[{\"field\": \"x\"}]', $2, $3)",
        uuid7(),
        content,
        NOW,
    )


async def test_content_that_is_nested_too_deeply_to_decode_is_erased_too(edge: Edge) -> None:
    nested = '{"audience": {"users": ["ada"]}, "payload": ' + "[" * 5_000 + "]" * 5_000 + "}"
    await add_refused(edge.pool, nested)
    operator = await edge.key(Role.OPERATOR)

    exported = await edge.http.get(f"{USER}/export", headers=operator)
    erased = await edge.http.delete(USER, headers=operator)

    assert (exported.status_code, len(exported.json()["refused_intents"])) == (200, 1)
    assert (erased.status_code, erased.json()["refused_intents"]) == (200, 1)
    assert await edge.pool.fetchval("select content from refused_intents") == ""


async def test_an_export_shows_no_refused_intent_that_is_for_others_too(edge: Edge) -> None:
    await add_ada(edge)
    for content in (
        '{"audience": {"users": ["ada"], "emails": ["ADA@example.org"]}, "payload": {"own": 1}}',
        '{"audience": {"users": ["ada", "grace"]}}',
        '{"audience": {"users": ["ada"], "emails": ["grace@example.org"]}}',
        '{"audience": {"users": ["ada"], "topic": "grace"}}',
        '{"audience": {"users": ["grace"]}, "payload": {"by": "ada@example.org"}}',
        '{"audience": {"users": ["ada", "grace"',
        '["ada", "grace"]',
    ):
        await add_refused(edge.pool, content)

    exported = await edge.http.get(f"{USER}/export", headers=await edge.key(Role.OPERATOR))

    assert "grace" not in exported.text
    posted, own, *shared = exported.json()["refused_intents"]
    assert '"refused"' in posted["content"]
    assert '"own"' in own["content"]
    assert own["faults"] == [{"field": "x"}]
    shown = {"code": "invalid", "type": "offer", "refused_at": "2026-03-01T12:00:00Z", "org_id": None}
    assert [each | {"id": ""} for each in shared] == [shown | {"id": ""}] * 6


async def test_only_operators_may_and_only_for_ids_that_can_exist(edge: Edge) -> None:
    for role in (Role.PRODUCER, Role.VIEWER):
        headers = await edge.key(role)
        assert (await edge.http.delete(USER, headers=headers)).status_code == 403
        assert (await edge.http.get(f"{USER}/export", headers=headers)).status_code == 403
    assert (await edge.http.delete(USER, headers=person("ada"))).status_code == 401
    operator = await edge.key(Role.OPERATOR)
    assert (await edge.http.delete("/v1/users/a%00b", headers=operator)).status_code == 404
    assert (await edge.http.get(f"/v1/users/{'x' * 200}/export", headers=operator)).status_code == 404


async def test_the_command_line_exports_to_a_file_and_erases(
    edge: Edge, database_url: str, pool: Pool, tmp_path: Path
) -> None:
    await add_ada(edge)

    async def tocsin(*arguments: str) -> Ran:
        environment = {"TOCSIN_DATABASE_URL": database_url, "COLUMNS": "200"}
        return await asyncio.to_thread(run, ["users", *arguments], environment, tmp_path)

    exported = await tocsin("export", "ada", "--output", "ada.json")
    assert (exported.code, exported.out) == (0, "Wrote ada.json.\n")
    file = tmp_path / "ada.json"
    assert '"ada@example.org"' in file.read_text()
    assert file.stat().st_mode & 0o077 == 0

    asked = await tocsin("erase", "ada")
    assert asked.code == 1
    assert await pool.fetchval("select count(*) from users") == 1
    erased = await tocsin("erase", "ada", "--yes", "--json", "--by", "grace")
    assert (erased.code, erased.json["state"], erased.json["devices"]) == (0, "finished", 1)
    assert await pool.fetchval("select count(*) from users") == 0
    assert await pool.fetchval("select actor from audit where action = 'user.erase'") == "grace"
    assert "0 devices" in (await tocsin("erase", "ada", "--yes")).said
