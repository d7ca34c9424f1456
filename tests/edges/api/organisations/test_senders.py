"""Whom a sender that is bound to an organisation reaches, by every kind of audience."""

from typing import Any

import httpx
import pytest

from tests.edges.api.organisations.conftest import World
from tests.edges.api.organisations.world import intent
from tests.edges.edge import SECRET, Edge, faults, person, running, services
from tests.rows import add_carrier, add_delivery, add_device, add_digest, add_notification, add_user
from tocsin.api.auth.holders import token_producer
from tocsin.api.auth.roles import Role
from tocsin.api.settings import AuthSettings
from tocsin.domain.ids import uuid7
from tocsin.store.pool import Pool

NOT_YOURS = "not_your_organisation"
TOKENS: dict[str, Any] = {
    "role_claim": "roles",
    "roles": {"notify": Role.PRODUCER, "sre": Role.OPERATOR, "root": Role.ADMIN},
    "unscoped_roles": [Role.ADMIN],
}


async def send(world: World, **fields: Any) -> httpx.Response:
    body = intent("ann", key=str(uuid7())) | fields
    return await world.edge.http.post("/v1/notifications", json=body, headers=world.acme.headers)


async def count(edge: Edge) -> int:
    counted: int = await edge.pool.fetchval("select count(*) from notifications")
    return counted


@pytest.mark.parametrize(
    ("audience", "field"),
    [
        ({"users": ["ann", "bob", "nobody"]}, "audience.users"),
        ({"users": ["unassigned"]}, "audience.users"),
        ({"emails": ["ann@acme.example", "bob@globex.example"]}, "audience.emails"),
        ({"topic": "news"}, "audience.topic"),
        ({"condition": "'news' in topics"}, "audience.condition"),
        ({"admins": True}, "audience.admins"),
    ],
)
async def test_whoever_is_not_of_the_organisation_is_refused_and_nobody_gets_it(
    world: World, audience: dict[str, Any], field: str
) -> None:
    await add_user(world.edge.pool, "unassigned")
    before = await count(world.edge)

    answer = await send(world, audience=audience)

    assert (answer.status_code, faults(answer)) == (422, {field: NOT_YOURS})
    assert await count(world.edge) == before


async def test_the_fault_lists_some_of_the_users_that_were_sent_and_no_address(world: World) -> None:
    users = [f"u{number}" for number in range(7)]
    by_id = await send(world, audience={"users": ["ann", *users]})
    by_mail = await send(world, audience={"emails": ["eve@globex.example"]})

    [fault] = by_id.json()["errors"]
    assert fault["message"] == "has 7 who are not people of the organisation: u0, u1, u2, u3, u4 and more"
    assert "globex" not in by_mail.text


async def test_addresses_are_those_of_its_people_in_any_case(world: World) -> None:
    answer = await send(world, audience={"emails": ["ANN@acme.EXAMPLE"]})

    assert answer.status_code == 202


async def test_attributes_find_people_of_the_organisation_alone(world: World) -> None:
    answer = await send(world, audience={"attributes": {"plan": "pro"}})
    nobody = await send(world, audience={"attributes": {"plan": "free"}})

    headers = world.acme.headers
    shown = await world.edge.http.get(
        f"/v1/notifications/{answer.json()['notification_id']}", headers=headers
    )
    assert [each["recipient"] for each in shown.json()["deliveries"]] == ["user:ann"]
    assert shown.json()["org_id"] == "acme"
    assert faults(nobody) == {"audience.attributes": "nobody"}


async def test_one_of_a_batch_is_refused_alone_and_recorded_for_its_organisation(world: World) -> None:
    items = [intent("ann", key="a"), intent("bob", key="b"), intent("ann", key="c")]
    answer = await world.edge.http.post(
        "/v1/notifications/batch", json={"notifications": items}, headers=world.acme.headers
    )

    assert [each["status"] for each in answer.json()["results"]] == ["accepted", "invalid", "accepted"]
    recorded = await world.edge.http.get("/v1/admin/refused", headers=world.acme.headers)
    assert recorded.json()["refused"][0]["idempotency_key"] == "b"
    assert {each["org_id"] for each in recorded.json()["refused"]} == {"acme"}


async def test_an_intent_may_name_its_organisation_and_no_other(world: World) -> None:
    own, other = await send(world, org_id="acme"), await send(world, org_id="globex")
    platform = await world.edge.key(Role.PRODUCER, "platform")
    named = [
        await world.edge.http.post(
            "/v1/notifications", json=intent("bob", key=org_id, org_id=org_id), headers=platform
        )
        for org_id in ("globex", "acme")
    ]

    assert (own.status_code, faults(other)) == (202, {"org_id": NOT_YOURS})
    assert (named[0].status_code, faults(named[1])) == (202, {"audience.users": NOT_YOURS})


async def test_what_was_accepted_is_a_duplicate_after_the_person_has_moved(world: World) -> None:
    sent = [await send(world, idempotency_key="same")]
    await world.edge.pool.execute("update users set org_id = 'globex' where user_id = 'ann'")
    sent += [await send(world, idempotency_key="same"), await send(world, idempotency_key="new")]

    assert [each.status_code for each in sent] == [202, 202, 422]
    assert sent[1].json()["status"] == "duplicate"
    assert sent[1].json()["notification_id"] == sent[0].json()["notification_id"]


async def test_it_adds_people_but_claims_nobody_who_is_there(world: World) -> None:
    http, headers = world.edge.http, world.acme.headers
    await add_user(world.edge.pool, "unassigned")
    await add_device(world.edge.pool, "only-a-device")
    await add_device(world.edge.pool, "only-a-webhook", provider="webhook", platform="server")
    choices = await http.patch(
        "/v1/preferences", json={"customers": {"push": False}}, headers=person("only-preferences")
    )
    assert choices.status_code == 200, choices.text
    new = await http.put("/v1/users/cleo", json={"email": "cleo@acme.example"}, headers=headers)
    again = await http.put("/v1/users/cleo", json={"locale": "de"}, headers=headers)
    moved = await http.put("/v1/users/cleo", json={"org_id": "globex"}, headers=headers)
    taken = [
        await http.put(f"/v1/users/{user}", json={}, headers=headers)
        for user in ("bob", "unassigned", "only-a-device", "only-a-webhook", "only-preferences")
    ]
    named = [{"user_id": "dan"}, {"user_id": "bob"}]
    bulk = await http.put("/v1/users", json={"users": named}, headers=headers)

    assert (new.json()["org_id"], again.json()["org_id"], again.json()["locale"]) == ("acme", "acme", "de")
    assert faults(moved) == {"org_id": NOT_YOURS}
    assert [faults(each) for each in taken] == [{"user_id": NOT_YOURS}] * 5
    assert faults(bulk) == {"users[1].user_id": NOT_YOURS}
    assert (await http.get("/v1/users/dan", headers=headers)).status_code == 404
    assert (await send(world, audience={"users": ["cleo"]})).status_code == 202


async def test_an_unbound_key_moves_people_and_keeps_them_where_they_are(world: World) -> None:
    http, platform = world.edge.http, await world.edge.key(Role.PRODUCER, "platform")
    kept = await http.put("/v1/users/bob", json={"locale": "de"}, headers=platform)
    moved = await http.put("/v1/users/bob", json={"org_id": "acme"}, headers=platform)
    removed = await http.put("/v1/users/bob", json={"org_id": None}, headers=platform)

    assert [each.json()["org_id"] for each in (kept, moved, removed)] == ["globex", "acme", None]


async def test_a_person_who_moved_is_shown_and_exported_without_what_another_organisation_sent(
    world: World,
) -> None:
    pool, http, headers = world.edge.pool, world.edge.http, world.acme.headers
    await pool.execute("update users set org_id = 'acme' where user_id = 'bob'")
    await send(world, audience={"users": ["bob"]})
    exported = (await http.get("/v1/users/bob/export", headers=headers)).json()
    shown = (await http.get("/v1/admin/people/bob", headers=headers)).json()
    platform = await world.edge.key(Role.ADMIN, "platform")
    everything = (await http.get("/v1/users/bob/export", headers=platform)).json()

    assert [each["org_id"] for each in exported["notifications"]] == ["acme"]
    assert exported["refused_intents"] == []
    assert [each["org_id"] for each in shown["notifications"]] == ["acme"]
    assert sum(each["count"] for each in shown["outcomes"]) == 1
    assert len(everything["notifications"]) == 3
    assert len(everything["refused_intents"]) == 1


async def test_whether_an_address_is_suppressed_is_shown_to_the_platform_alone(world: World) -> None:
    http, platform = world.edge.http, await world.edge.key(Role.ADMIN, "platform")
    await http.put("/v1/users/cleo", json={"email": "x@elsewhere.example"}, headers=world.acme.headers)
    body = {"reason": "manual"}
    await http.put("/v1/admin/suppressions/x@elsewhere.example", json=body, headers=platform)
    shown = []
    for headers in (platform, world.acme.headers):
        exported = (await http.get("/v1/users/cleo/export", headers=headers)).json()
        seen = (await http.get("/v1/admin/people/cleo", headers=headers)).json()
        shown.append((exported.get("suppression") is not None, seen["address_suppressed"]))

    assert shown == [(True, True), (False, None)]


async def test_digests_with_messages_of_others_are_not_exported(world: World) -> None:
    pool = world.edge.pool
    carriers = {}
    for org_id in ("acme", "globex"):
        digest_id = await add_digest(pool, key=f"email:user:ann:{org_id}", state="ended")
        notification_id = await add_notification(pool, org_id=org_id)
        await add_delivery(pool, "ann", notification_id=notification_id, digest_id=digest_id, state="sent")
        carriers[org_id] = str(await add_carrier(pool, digest_id, user_id="ann"))
    exported = (await world.edge.http.get("/v1/users/ann/export", headers=world.acme.headers)).json()

    assert [each["id"] for each in exported["digests"]] == [carriers["acme"]]


async def test_keys_of_a_producer_are_of_one_organisation(world: World) -> None:
    http, admin = world.edge.http, await world.edge.key(Role.ADMIN, "platform")
    body = {"producer": "crm", "role": "producer", "org_id": "acme"}
    made = await http.post("/v1/admin/keys", json=body, headers=admin)
    rotated = await http.post("/v1/admin/keys/crm/rotate", headers=admin)
    other = await http.post("/v1/admin/keys", json=body | {"org_id": "globex"}, headers=admin)

    assert (made.status_code, made.json()["org_id"]) == (201, "acme")
    assert rotated.json()["created"]["org_id"] == "acme"
    useless = await http.post("/v1/admin/keys", json=body | {"role": "delivery"}, headers=admin)
    assert faults(other) == {"producer": "other_organisation"}
    assert faults(useless) == {"org_id": "not_for_organisations"}
    [audited] = (await http.get("/v1/admin/audit", params={"action": "key.create"}, headers=admin)).json()[
        "entries"
    ]
    assert audited["details"]["org_id"] == "acme"


async def test_without_scoping_a_bound_key_is_refused_and_none_is_made(pool: Pool) -> None:
    async with running(services(pool)) as edge:
        bound, admin = await edge.key(Role.PRODUCER, "crm", "acme"), await edge.key(Role.ADMIN)
        refused = await edge.http.get("/v1/notifications", headers=bound)
        body = {"producer": "shop", "role": "producer", "org_id": "acme"}
        made = await edge.http.post("/v1/admin/keys", json=body, headers=admin)

    assert (refused.status_code, refused.json()["code"]) == (403, "no_organisation")
    assert faults(made) == {"org_id": "scoping_off"}


@pytest.mark.parametrize(
    ("claims", "status"),
    [
        ({"roles": ["notify"], "org_id": "acme"}, 202),
        ({"roles": ["notify"], "org_id": 7}, 422),
        ({"roles": ["notify"]}, 403),
        ({"roles": ["notify"], "org_id": ""}, 403),
        ({"roles": ["notify"], "org_id": ["acme"]}, 403),
        ({"roles": ["root"]}, 202),
        ({"roles": ["root"], "org_id": "globex"}, 422),
        ({"roles": ["root"], "org_id": ["acme"]}, 403),
    ],
)
async def test_the_claim_of_a_token_binds_it(pool: Pool, claims: dict[str, Any], status: int) -> None:
    auth = AuthSettings(jwt_secret=SECRET, org_scoping=True, **TOKENS)
    await add_user(pool, "ann", org_id="acme")
    async with running(services(pool, auth=auth)) as edge:
        answer = await edge.http.post(
            "/v1/notifications", json=intent("ann"), headers=person("app-7", **claims)
        )

    assert answer.status_code == status, answer.text
    if status == 403:
        assert answer.json()["code"] == "no_organisation"


async def test_a_token_whose_organisation_changed_does_not_see_what_it_sent_before(pool: Pool) -> None:
    auth = AuthSettings(jwt_secret=SECRET, org_scoping=True, **TOKENS)
    for user, org_id in (("ann", "acme"), ("bob", "globex")):
        await add_user(pool, user, org_id=org_id)
    async with running(services(pool, auth=auth)) as edge:
        acme, globex = (person("app-7", roles=["notify"], org_id=org_id) for org_id in ("acme", "globex"))
        sent = (await edge.http.post("/v1/notifications", json=intent("ann"), headers=acme)).json()
        path = f"/v1/notifications/{sent['notification_id']}"
        shown = await edge.http.get(path, headers=globex)
        cancelled = await edge.http.post(
            "/v1/notifications/cancel", json={"idempotency_key": "k1"}, headers=globex
        )
        listed = await edge.http.get("/v1/notifications", headers=globex)

    assert (shown.status_code, cancelled.status_code, listed.json()["items"]) == (404, 404, [])


@pytest.mark.parametrize("name", ["app-7", "x" * 120])
async def test_tokens_of_one_name_in_two_organisations_share_no_idempotency_key(
    pool: Pool, name: str
) -> None:
    auth = AuthSettings(jwt_secret=SECRET, org_scoping=True, **TOKENS)
    people = {"ann": "acme", "bob": "globex"}
    sent: list[httpx.Response] = []
    repeated: list[httpx.Response] = []
    async with running(services(pool, auth=auth)) as edge:
        for user, org_id in people.items():
            await add_user(pool, user, org_id=org_id)
            headers = person(name, roles=["notify"], org_id=org_id)
            for answers in (sent, repeated):
                answers.append(await edge.http.post("/v1/notifications", json=intent(user), headers=headers))
    producers = [row[0] for row in await pool.fetch("select producer from notifications")]

    assert [each.json()["status"] for each in sent] == ["accepted", "accepted"]
    assert [each.json()["status"] for each in repeated] == ["duplicate", "duplicate"]
    assert max(map(len, producers)) <= 100


def test_no_two_tokens_have_one_producer() -> None:
    pairs = [("c", "a:b"), ("b:c", "a"), ("a:c", None), ("c", "a%3Ab"), ("c", "a"), ("c", None)]

    assert len({token_producer(user_id, org_id) for user_id, org_id in pairs}) == len(pairs)


async def test_the_audit_has_the_organisation_of_the_actor(world: World) -> None:
    await world.edge.http.delete("/v1/users/ann", headers=world.acme.headers)
    platform = await world.edge.key(Role.ADMIN, "platform")
    answer = await world.edge.http.get("/v1/admin/audit", params={"action": "user.erase"}, headers=platform)

    [entry] = answer.json()["entries"]
    assert entry["actor"].endswith(", organisation acme)")


async def test_another_organisation_in_a_filter_is_refused(world: World) -> None:
    for path in ("/v1/notifications", "/v1/admin/dead-letters"):
        answer = await world.edge.http.get(path, params={"org_id": "globex"}, headers=world.acme.headers)
        assert (answer.status_code, answer.json()["code"]) == (403, "not_allowed")


async def test_a_producer_sees_its_own_alone_within_its_organisation(world: World) -> None:
    mine = await add_notification(world.edge.pool, producer="crm", org_id="acme")
    await add_notification(world.edge.pool, producer="crm", org_id=None)
    headers = await world.edge.key(Role.PRODUCER, "crm", "acme")
    found = (await world.edge.http.get("/v1/notifications", headers=headers)).json()["items"]
    shown = await world.edge.http.get(
        f"/v1/notifications/{world.acme.ids['notification_id']}", headers=headers
    )

    assert [each["notification_id"] for each in found] == [str(mine)]
    assert shown.status_code == 404
