"""Producers and operators who come with a token of the identity provider instead of an API key."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.edges.edge import SECRET, Edge, person, running, services
from tocsin.api.auth.roles import Role
from tocsin.api.settings import AuthSettings
from tocsin.domain.errors import SettingsError
from tocsin.settings.load import load_settings
from tocsin.store.pool import Pool

ROLES = {"notify": Role.PRODUCER, "support": Role.VIEWER, "sre": Role.OPERATOR}
AUTH = AuthSettings(jwt_secret=SECRET, role_claim="roles", roles=ROLES)
INTENT = {
    "type": "new_customer",
    "audience": {"users": ["42"]},
    "payload": {"customer_name": "Ada"},
    "idempotency_key": "k1",
}


@pytest.fixture
async def mapped(pool: Pool) -> AsyncIterator[Edge]:
    async with running(services(pool, auth=AUTH)) as opened:
        yield opened


async def test_a_token_has_the_rights_of_all_its_roles(mapped: Edge) -> None:
    send, see = "/v1/notifications", "/v1/admin/toggles"
    for values, sends, sees in (
        (["notify"], 202, 403),
        (["support", "unrelated"], 403, 200),
        ("openid notify support", 202, 200),
    ):
        headers = person("app-7", roles=values)
        sent = await mapped.http.post(send, json=INTENT, headers=headers)
        seen = await mapped.http.get(see, headers=headers)
        assert (sent.status_code, seen.status_code) == (sends, sees), values


async def test_its_notifications_are_its_own_and_not_those_of_a_key_of_that_name(mapped: Edge) -> None:
    token, key = person("billing", roles=["notify"]), await mapped.key(Role.PRODUCER, "billing")
    by_token = (await mapped.http.post("/v1/notifications", json=INTENT, headers=token)).json()
    by_key = (await mapped.http.post("/v1/notifications", json=INTENT, headers=key)).json()

    assert (by_token["status"], by_key["status"]) == ("accepted", "accepted")
    for headers, own, other in ((token, by_token, by_key), (key, by_key, by_token)):
        found = (await mapped.http.get("/v1/notifications", headers=headers)).json()["items"]
        assert [each["notification_id"] for each in found] == [own["notification_id"]]
        shown = await mapped.http.get(f"/v1/notifications/{other['notification_id']}", headers=headers)
        assert shown.status_code == 404
    assert found[0]["producer"] == "billing"


async def test_what_it_does_is_in_the_audit_under_its_name(mapped: Edge) -> None:
    operator = person("eve", roles=["sre"])
    await mapped.http.delete("/v1/users/42", headers=operator)

    [entry] = (await mapped.http.get("/v1/admin/audit", headers=operator)).json()["entries"]
    assert (entry["actor"], entry["action"]) == ("jwt:eve (token)", "user.erase")


@pytest.mark.parametrize(
    "claims", [{}, {"roles": []}, {"roles": ["Notify"]}, {"roles": 7}, {"roles": [["notify"], None]}]
)
async def test_a_token_without_a_role_is_refused_by_a_code(mapped: Edge, claims: dict[str, Any]) -> None:
    answer = await mapped.http.get("/v1/notifications", headers=person("ada", **claims))

    assert (answer.status_code, answer.json()["code"]) == (403, "no_role")
    assert "'roles'" in answer.json()["detail"]
    # It is still the token of a person.
    assert (await mapped.http.get("/v1/devices", headers=person("ada", **claims))).status_code == 200


async def test_a_claim_may_be_nested_or_have_dots_in_its_name(pool: Pool) -> None:
    for name, claims in (
        ("realm_access.roles", {"realm_access": {"roles": ["support"]}}),
        ("https://acme.example/roles", {"https://acme.example/roles": ["support"]}),
    ):
        auth = AuthSettings(jwt_secret=SECRET, role_claim=name, roles=ROLES)
        async with running(services(pool, auth=auth)) as edge:
            seen = await edge.http.get("/v1/admin/toggles", headers=person("ada", **claims))
            assert seen.status_code == 200, name
            without = await edge.http.get("/v1/admin/toggles", headers=person("ada", realm_access=1))
            assert without.json()["code"] == "no_role"


async def test_a_forged_token_is_unauthenticated(mapped: Edge) -> None:
    headers = person("ada", roles=["sre"])
    forged = {"Authorization": headers["Authorization"][:-4] + "AAAA"}

    assert (await mapped.http.get("/v1/admin/toggles", headers=forged)).status_code == 401


async def test_without_the_setting_a_token_is_no_key(edge: Edge) -> None:
    answer = await edge.http.get("/v1/notifications", headers=person("ada", roles=["sre"]))

    assert (answer.status_code, answer.json()["code"]) == (401, "unauthenticated")


def test_settings_that_have_no_effect_stop_the_start() -> None:
    for environ, setting in (
        ({"TOCSIN_AUTH__ROLE_CLAIM": "roles"}, "auth.role_claim"),
        ({"TOCSIN_AUTH__ROLES__SUPPORT": "viewer"}, "auth.roles"),
        (
            {"TOCSIN_AUTH__ROLE_CLAIM": "roles", "TOCSIN_AUTH__ROLES__SUPPORT": "viewer"},
            "auth.role_claim",
        ),
    ):
        with pytest.raises(SettingsError) as raised:
            load_settings(environ)
        assert any(fault.field.startswith(setting) for fault in raised.value.faults), environ
    known = load_settings(
        {
            "TOCSIN_AUTH__ROLE_CLAIM": "roles",
            "TOCSIN_AUTH__ROLES__SUPPORT": "viewer",
            "TOCSIN_AUTH__JWT_SECRET": SECRET,
        }
    )
    assert known.auth.roles == {"support": Role.VIEWER}
