from tests.edges.edge import Edge, faults
from tocsin.api.auth.roles import Role

INTENT = {
    "type": "new_customer",
    "audience": {"users": ["ada"]},
    "payload": {"customer_name": "Ali"},
    "idempotency_key": "k",
}


async def test_an_intent_may_have_a_language(edge: Edge) -> None:
    headers = await edge.key(Role.PRODUCER)
    refused = await edge.http.post("/v1/notifications", json=INTENT | {"locale": "??"}, headers=headers)
    accepted = await edge.http.post("/v1/notifications", json=INTENT | {"locale": "tr_TR"}, headers=headers)
    again = await edge.http.post("/v1/notifications", json=INTENT | {"locale": "tr-tr"}, headers=headers)
    other = await edge.http.post("/v1/notifications", json=INTENT, headers=headers)
    notification_id = accepted.json()["notification_id"]
    shown = (await edge.http.get(f"/v1/notifications/{notification_id}", headers=headers)).json()

    assert (refused.status_code, faults(refused)) == (422, {"locale": "invalid"})
    assert (again.status_code, again.json()["status"]) == (202, "duplicate")
    assert (other.status_code, other.json()["code"]) == (409, "idempotency_conflict")
    assert shown["locale"] == "tr-TR"
