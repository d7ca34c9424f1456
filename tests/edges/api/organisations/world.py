"""Two organisations with the same kinds of things each: `ann` is of acme, `bob` of globex."""

from typing import Any, NamedTuple

from tests.edges.edge import SECRET, Edge
from tests.rows import NOW, add_delivery, add_device, add_notification, add_user
from tocsin.api.auth.roles import Role
from tocsin.api.settings import AuthSettings

AUTH = AuthSettings(jwt_secret=SECRET, org_scoping=True)
PAYLOAD = {"customer_name": "Ada"}


class Organisation(NamedTuple):
    """What an organisation has, and the headers of a key with every right that is bound to it."""

    org_id: str
    headers: dict[str, str]
    ids: dict[str, str]
    """The values of the parameters of paths, and of other fields."""


def intent(*users: str, key: str = "k1", **fields: Any) -> dict[str, Any]:
    audience = {"users": list(users)}
    return {
        "type": "new_customer",
        "audience": audience,
        "payload": PAYLOAD,
        "idempotency_key": key,
    } | fields


async def add_organisation(edge: Edge, org_id: str, user: str) -> Organisation:
    """Store a person with a device, an endpoint, preferences, notifications, refused intents and a replay."""
    pool, http = edge.pool, edge.http
    headers = await edge.key(Role.ADMIN, f"{org_id}-shop", org_id)
    await add_user(pool, user, org_id=org_id, email=f"{user}@{org_id}.example", attributes='{"plan": "pro"}')
    await add_device(pool, user)
    mine = {"producer": f"{org_id}-shop", "org_id": org_id, "external_id": f"{org_id}-1-0"}
    sent = await add_notification(pool, idempotency_key="sent", **mine)
    waiting = await add_notification(pool, idempotency_key="waiting", **mine | {"external_id": None})
    dead = await add_delivery(
        pool,
        user,
        notification_id=sent,
        state="dead",
        provider="fcm",
        last_error_code="UNAVAILABLE",
        settled_at=NOW,
    )
    await add_delivery(pool, user, notification_id=waiting, state="scheduled")
    made = {}
    for name, method, path, body in (
        ("endpoint_id", "POST", f"/v1/users/{user}/webhooks", {"url": f"https://{org_id}.example/hook"}),
        ("preferences", "PATCH", f"/v1/users/{user}/preferences", {"customers": {"push": False}}),
        ("name", "PUT", f"/v1/segments/{org_id}-vip", {"user_id": user}),
        ("replay_id", "POST", "/v1/admin/dead-letters/replay", {"filter": {}, "rate": 1}),
    ):
        answer = await http.request(method, path, json=body, headers=headers)
        assert answer.is_success, answer.text
        made[name] = answer.json().get(name, "")
    refused = await http.post("/v1/notifications", json=intent(user, payload={}), headers=headers)
    assert refused.status_code == 422
    return Organisation(
        org_id,
        headers,
        {
            "user_id": user,
            "notification_id": str(sent),
            "waiting_id": str(waiting),
            "external_id": f"{org_id}-1-0",
            "delivery_id": str(dead),
            "address": f"{user}@{org_id}.example",
            "endpoint_id": made["endpoint_id"],
            "replay_id": made["replay_id"],
            "name": made["name"],
        },
    )


TABLES = {
    "users": "user_id",
    "devices": "user_id",
    "preferences": "user_id",
    "deliveries": "user_id",
    "notifications": "org_id",
    "refused_intents": "org_id",
    "replays": "filter ->> 'org_id'",
    "segments": "org_id",
    "segment_members": "user_id",
}


async def stored(edge: Edge, organisation: Organisation) -> dict[str, list[Any]]:
    """Return everything that is stored of an organisation."""
    found = {}
    for table, column in TABLES.items():
        value = organisation.ids["user_id"] if column == "user_id" else organisation.org_id
        statement = f"select to_jsonb(t)::text from {table} as t where {column} = $1 order by 1"  # noqa: S608
        found[table] = [row[0] for row in await edge.pool.fetch(statement, value)]
    return found
