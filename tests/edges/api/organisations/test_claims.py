"""What the directory takes from the claims of a person's token when a device is registered."""

from typing import Any

import pytest

from tests.edges.edge import SECRET, Edge, person, running, services
from tests.rows import add_user
from tocsin.api.auth.roles import Role
from tocsin.api.settings import AuthSettings
from tocsin.domain.errors import SettingsError
from tocsin.domain.people.attributes import AttributeValue
from tocsin.settings.load import load_settings
from tocsin.store.people import users
from tocsin.store.people.users import UserRow
from tocsin.store.pool import Pool

CLAIMS = {"department": "department", "plan": "https://example.com/plan", "site": "address.site"}
AUTH = AuthSettings(jwt_secret=SECRET, org_scoping=True, attribute_claims=CLAIMS)
DEVICE = {"token": "the-token-of-ada", "platform": "ios"}


async def register(edge: Edge, **claims: Any) -> UserRow | None:
    answer = await edge.http.post("/v1/devices/register", json=DEVICE, headers=person("ada", **claims))
    assert answer.status_code == 200, answer.text
    return await users.get(edge.pool, "ada")


async def test_organisation_and_attributes_are_stored_and_follow_the_token(pool: Pool) -> None:
    async with running(services(pool, auth=AUTH)) as edge:
        claims = {"org_id": "acme", "department": ["r&d"], "address": {"site": "izmir"}}
        first = await register(edge, **claims, **{"https://example.com/plan": "pro"})
        second = await register(edge, org_id="globex", department=["sales"])
        third = await register(edge)
        audited = await edge.http.get("/v1/admin/audit", headers=await edge.key(Role.ADMIN))

    assert first
    assert second
    assert third
    assert (first.org_id, first.attributes) == (
        "acme",
        {"department": ["r&d"], "plan": "pro", "site": "izmir"},
    )
    assert (second.org_id, second.attributes) == ("globex", {"department": ["sales"]})
    # A token without the claim of the organisation moves nobody.
    assert (third.org_id, third.attributes) == ("globex", {})
    [entry] = audited.json()["entries"]
    assert (entry["action"], entry["details"]) == ("user.move", {"from": "acme", "to": "globex"})
    assert "ada" not in entry["subject"]


async def test_the_rest_of_what_is_known_of_a_person_stays(pool: Pool) -> None:
    known = {"email": "ada@example.org", "locale": "tr"}
    await add_user(pool, "ada", **known, attributes='{"seats": 5, "plan": "free"}')
    async with running(services(pool, auth=AUTH)) as edge:
        row = await register(edge, org_id="acme", department="r&d")

    assert row
    assert (row.email, row.locale, row.org_id) == ("ada@example.org", "tr", "acme")
    assert row.attributes == {"seats": 5, "department": "r&d"}


async def test_nothing_is_written_for_what_is_known(pool: Pool) -> None:
    async with running(services(pool, auth=AUTH)) as edge:
        first = await register(edge, org_id="acme", department="r&d")
        again = await register(edge, org_id="acme", department="r&d")
        assert first == again

    async with running(services(pool)) as edge:
        assert await register(edge, org_id="globex", department="sales") == first


@pytest.mark.parametrize(
    "claims",
    [
        {"department": {"nested": True}},
        {"department": "x" * 501},
        {"department": "half of a pair \ud800"},
        {"department": ["x", 7]},
        {"department": "nul \x00"},
        {"org_id": "line\nbreak"},
        {"org_id": {"id": "acme"}},
        {"org_id": "x" * 129},
    ],
)
async def test_a_claim_that_cannot_be_stored_is_left_out_and_the_device_is_registered(
    pool: Pool, claims: dict[str, Any]
) -> None:
    async with running(services(pool, auth=AUTH)) as edge:
        row = await register(edge, **{"address": {"site": "izmir"}, **claims})

    assert row
    assert (row.org_id, row.attributes) == (None, {"site": "izmir"})


async def test_attributes_that_become_too_large_stay_as_they_were(pool: Pool) -> None:
    full: dict[str, AttributeValue] = {f"a{number}": "x" * 480 for number in range(8)}
    row = UserRow(
        user_id="ada",
        email=None,
        locale=None,
        timezone=None,
        gmt_offset_seconds=None,
        updated_at=services(pool).clock(),
        attributes=full,
    )
    await users.put(pool, [row])
    async with running(services(pool, auth=AUTH)) as edge:
        stored = await register(edge, org_id="acme", department="x" * 300)

    assert stored
    assert (stored.org_id, stored.attributes) == ("acme", full)


def test_settings_without_effect_or_sense_stop_the_start() -> None:
    outbox = {"TOCSIN_OUTBOXES__SHOP__URL": "postgresql://h/d", "TOCSIN_OUTBOXES__SHOP__ORG_ID": "acme"}
    stream = {"TOCSIN_STREAMS__IN__URL": "redis://h", "TOCSIN_STREAMS__IN__ORG_ID": "acme"}
    for environ, setting in (
        ({"TOCSIN_AUTH__ATTRIBUTE_CLAIMS__9": "x"}, "auth.attribute_claims"),
        ({"TOCSIN_AUTH__ATTRIBUTE_CLAIMS__PLAN": ""}, "auth.attribute_claims"),
        ({"TOCSIN_AUTH__UNSCOPED_ROLES": "admin"}, "auth.unscoped_roles"),
        (outbox, "outboxes.shop.org_id"),
        (stream, "streams.in.org_id"),
    ):
        with pytest.raises(SettingsError) as raised:
            load_settings(environ)
        assert [fault.field.partition(" ")[0] for fault in raised.value.faults] == [setting], environ
    known = load_settings({**outbox, **stream, "TOCSIN_AUTH__ORG_SCOPING": "true"})
    assert known.outboxes["shop"].org_id == known.streams["in"].org_id == "acme"
