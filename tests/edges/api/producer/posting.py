"""Intents to post, and what was refused of them."""

from typing import Any

from tests.edges.edge import Edge
from tocsin.api.auth.roles import Role

POST = "/v1/notifications"
BATCH = "/v1/notifications/batch"


def intent(key: str = "k1", **changes: Any) -> dict[str, Any]:
    return {
        "type": "new_customer",
        "audience": {"users": ["ada"]},
        "payload": {"customer_name": "Ali Veli"},
        "idempotency_key": key,
        **changes,
    }


async def refused_codes(edge: Edge) -> list[str]:
    answer = await edge.http.get("/v1/admin/refused", headers=await edge.key(Role.VIEWER, "watch"))
    assert answer.status_code == 200
    return [row["code"] for row in answer.json()["refused"]]
