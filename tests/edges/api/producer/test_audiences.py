"""Types that are for some kinds of audience, each by its own channels, as a producer meets them."""

from typing import Any
from uuid import uuid4

import httpx
import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.edges.edge import Edge, faults, running, services
from tocsin.api.auth.roles import Role
from tocsin.api.services import Services
from tocsin.catalog.catalog import Catalog, CompiledType
from tocsin.catalog.schema import Schema
from tocsin.domain.catalog import NotificationType
from tocsin.engine.accept.acceptor import Acceptor
from tocsin.engine.accept.planner import Planner
from tocsin.engine.clock import utc_now
from tocsin.engine.inspect.explain import Explainer
from tocsin.engine.toggles.toggles import Toggles
from tocsin.store.pool import Pool

POST = "/v1/notifications"
PAYLOAD = {"type": "object", "properties": {"game_id": {"type": "string"}}, "required": ["game_id"]}
SUBMITTED = NotificationType(
    name="lobby.application.submitted",
    version=1,
    category="lobby",
    channels=("push", "email"),
    audiences={"users": ("push", "email"), "attributes": ("push",), "admins": ("email",)},
    default_locale="en",
    payload_schema=PAYLOAD,
)
PROVIDERS = {"push": ("fcm",), "email": ("smtp",)}
AUDIENCES: dict[str, dict[str, Any]] = {
    "users": {"users": ["ada", "bob"]},
    "emails": {"emails": ["ada@example.com"]},
    "admins": {"admins": True},
    "topic": {"topic": "news"},
    "condition": {"condition": "'news' in topics"},
    "attributes": {"attributes": {"plan": "pro"}},
}
CHANNELS = st.lists(st.sampled_from(("push", "email", "webhook")), min_size=1, unique=True).map(tuple)


def parts(pool: Pool, type_: NotificationType, admins: tuple[str, ...] = ()) -> Services:
    catalog = Catalog([CompiledType(type_, Schema(type_.payload_schema))])
    planner = Planner(catalog, PROVIDERS, {type_.name: admins}, Toggles())
    standard = services(pool)
    rules = msgspec.structs.replace(
        standard.explainer.rules, catalog=catalog, providers=frozenset({"fcm", "smtp"})
    )
    return msgspec.structs.replace(
        standard, acceptor=Acceptor(pool, planner, utc_now), explainer=Explainer(planner, rules)
    )


def intent(kind: str, **changes: Any) -> dict[str, Any]:
    return {
        "type": SUBMITTED.name,
        "audience": AUDIENCES[kind],
        "payload": {"game_id": "7"},
        "idempotency_key": str(uuid4()),
    } | changes


async def send(edge: Edge, key: dict[str, str], body: dict[str, Any]) -> httpx.Response:
    return await edge.http.post(POST, json=body, headers=key)


async def slots(edge: Edge, key: dict[str, str], body: dict[str, Any]) -> dict[str, tuple[str, str | None]]:
    answer = await send(edge, key, body)
    assert answer.status_code == 202, answer.text
    shown = await edge.http.get(f"{POST}/{answer.json()['notification_id']}", headers=key)
    return {each["route_id"]: (each["state"], each["reason"]) for each in shown.json()["deliveries"]}


@pytest.mark.parametrize("kind", ["emails", "topic", "condition"])
async def test_an_audience_that_the_type_is_not_for_is_refused(pool: Pool, kind: str) -> None:
    async with running(parts(pool, SUBMITTED)) as edge:
        key = await edge.key(Role.PRODUCER)
        refused = await send(edge, key, intent(kind, payload={}))
        explained = await edge.http.post(f"{POST}/explain", json=intent(kind), headers=key)

    assert refused.status_code == explained.status_code == 422
    assert faults(refused) == {"payload.game_id": "missing", "audience": "audience_not_allowed"}
    assert faults(explained) == {"audience": "audience_not_allowed"}
    assert "it is for: users, attributes, admins" in explained.text
    assert await pool.fetchval("select count(*) from notifications") == 0
    assert await pool.fetchval("select count(*) from refused_intents") == 1


async def test_every_recipient_has_a_slot_of_each_channel_and_admins_an_email_alone(pool: Pool) -> None:
    await pool.execute(
        "insert into users (user_id, attributes, updated_at) values ('eve', '{\"plan\": \"pro\"}', now())"
    )
    async with running(parts(pool, SUBMITTED, ("ops@example.com", "OPS@EXAMPLE.COM"))) as edge:
        key = await edge.key(Role.PRODUCER)
        of_users = await slots(edge, key, intent("users"))
        of_admins = await slots(edge, key, intent("admins"))
        of_attributes = await slots(edge, key, intent("attributes"))
    async with running(parts(pool, SUBMITTED)) as edge:
        of_nobody = await slots(edge, key, intent("admins"))

    outside = ("skipped", "channel_not_for_audience")
    assert of_users == {
        f"{channel}:user:{user}": ("pending", None)
        for user in ("ada", "bob")
        for channel in ("push", "email")
    }
    assert of_admins == {
        "push:email:ops@example.com": outside,
        "email:email:ops@example.com": ("pending", None),
        "push:email:OPS@example.com": outside,
        "email:email:OPS@example.com": ("pending", None),
    }
    assert of_attributes == {"push:user:eve": ("pending", None), "email:user:eve": outside}
    assert of_nobody == {f"email:config:{SUBMITTED.name}": ("skipped", "no_admins_configured")}


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    channels=CHANNELS,
    audiences=st.none() | st.dictionaries(st.sampled_from(sorted(AUDIENCES)), CHANNELS, min_size=1),
    kind=st.sampled_from(["users", "emails", "admins", "topic", "condition"]),
    admins=st.sampled_from([(), ("ops@example.com",)]),
)
async def test_explain_has_the_slots_that_are_then_planned(
    pool: Pool, channels: Any, audiences: Any, kind: str, admins: tuple[str, ...]
) -> None:
    type_ = msgspec.structs.replace(SUBMITTED, channels=channels, audiences=audiences)
    async with running(parts(pool, type_, admins)) as edge:
        key = await edge.key(Role.PRODUCER)
        explained = await edge.http.post(f"{POST}/explain", json=intent(kind), headers=key)
        if audiences is not None and kind not in audiences:
            assert faults(explained) == faults(await send(edge, key, intent(kind)))
            return
        routes = {each["route_id"]: each for each in explained.json()["routes"]}
        planned = await slots(edge, key, intent(kind))

    assert list(routes) == list(planned)
    for route_id, (state, reason) in planned.items():
        if state == "skipped":
            assert (routes[route_id]["outcome"], routes[route_id]["reason"]) == (state, reason)
        else:
            # What is known of ada and bob when it is due decides: they have no device and no address.
            assert routes[route_id]["reason"] in {None, "no_device", "no_address", "no_endpoint"}
    outside = [each for each in routes.values() if each["reason"] == "channel_not_for_audience"]
    assert all([step["rule"] for step in each["steps"]] == ["type"] for each in outside)
