"""The page of API keys: creating one that is shown once, rotating and revoking."""

import re

from tests.edges.api.dashboard.visits import Visit, signed_in
from tests.edges.edge import Edge, running, services
from tocsin.api.auth.roles import Role
from tocsin.api.settings import AuthSettings
from tocsin.store import keys
from tocsin.store.keys import KeyRow
from tocsin.store.pool import Pool

PATH = "/dashboard/keys"
SECRET = re.compile(r'value="(tocsin_[\w-]{43})"')


async def key_of(edge: Edge, producer: str) -> KeyRow:
    return next(row for row in await keys.list_all(edge.pool) if row.producer == producer)


def secret_in(text: str) -> str:
    found = SECRET.search(text)
    assert found, text
    return found[1]


async def works(edge: Edge, secret: str) -> bool:
    answer = await edge.http.get("/v1/notifications", headers={"Authorization": f"Bearer {secret}"})
    return answer.status_code == 200


async def test_a_new_key_works_and_is_shown_once(edge: Edge) -> None:
    visit = await signed_in(edge, Role.ADMIN)

    answer = await visit.post(PATH, producer="billing", role="producer")

    assert (answer.status_code, answer.headers["cache-control"]) == (201, "no-store")
    secret = secret_in(answer.text)
    assert await works(edge, secret)
    listed = await visit.shown(PATH)
    assert "billing" in listed
    assert secret not in listed
    assert secret[-4:] in listed


async def test_a_rotated_key_works_until_the_overlap_ends(edge: Edge) -> None:
    visit = await signed_in(edge, Role.ADMIN)
    old = secret_in((await visit.post(PATH, producer="billing", role="producer")).text)
    row = await key_of(edge, "billing")

    answer = await visit.post(f"{PATH}/{row.id}/rotate", overlap_seconds="3600")

    new = secret_in(answer.text)
    assert f"The key that ends in {old[-4:]} works until" in answer.text
    assert await works(edge, new)
    assert await works(edge, old)
    assert 'data-kind="warn">replaced' in await visit.shown(PATH)
    again = await visit.post(f"{PATH}/{row.id}/rotate", overlap_seconds="0")
    assert again.status_code == 404


async def test_a_revoked_key_is_listed_as_such(edge: Edge) -> None:
    visit = await signed_in(edge, Role.ADMIN)
    await visit.post(PATH, producer="billing", role="producer")
    row = await key_of(edge, "billing")

    answer = await visit.post(f"{PATH}/{row.id}/revoke")

    assert answer.status_code == 303
    assert (await key_of(edge, "billing")).revoked_at is not None
    shown = await visit.shown(PATH)
    assert f"The key of billing that ends in {row.hint} is revoked." in shown
    assert f"{PATH}/{row.id}/" not in shown
    actions = await edge.pool.fetch("select action from audit where subject = 'key:billing' order by id")
    assert [each["action"] for each in actions] == ["key.create", "key.revoke"]


async def test_a_key_can_be_bound_to_an_organisation(pool: Pool) -> None:
    auth = AuthSettings(jwt_secret="a secret of at least thirty-two bytes", org_scoping=True)
    async with running(services(pool, auth=auth)) as edge:
        visit = await signed_in(edge, Role.ADMIN)
        answer = await visit.post(PATH, producer="acme-billing", role="producer", org_id="acme")

        assert "bound to the organisation acme" in answer.text
        assert (await key_of(edge, "acme-billing")).org_id == "acme"
        other = await visit.post(PATH, producer="acme-billing", role="producer", org_id="<b>globex")
        assert other.status_code == 422
        assert "acme-billing has keys of the organisation acme" in other.text
        assert "&lt;b&gt;globex" in other.text


async def test_an_organisation_is_refused_while_keys_cannot_be_bound(edge: Edge) -> None:
    visit = await signed_in(edge, Role.ADMIN)

    answer = await visit.post(PATH, producer="billing", role="producer", org_id="acme")

    assert (answer.status_code, "TOCSIN_AUTH__ORG_SCOPING is off" in answer.text) == (422, True)
    assert 'name="org_id"' not in await visit.shown(PATH)


async def test_hostile_fields_are_refused_and_escaped(edge: Edge) -> None:
    visit = await signed_in(edge, Role.ADMIN)

    for fields in (
        {"producer": "<script>alert(1)</script>", "role": "producer"},
        {"producer": "a" * 101, "role": "producer"},
        {"producer": "billing", "role": "<script>alert(1)</script>"},
        {"producer": "billing", "role": "producer", "<script>alert(1)": "x"},
    ):
        answer = await visit.post(PATH, **fields)
        assert (answer.status_code, "<script>alert" in answer.text) == (422, False)


async def test_only_admins_reach_keys(edge: Edge) -> None:
    for role in (Role.VIEWER, Role.OPERATOR):
        visit: Visit = await signed_in(edge, role)
        row = await key_of(edge, "console")
        assert (await visit.get(PATH)).status_code == 403
        assert (await visit.post(PATH, producer="billing", role="admin")).status_code == 403
        for action in ("rotate", "revoke"):
            assert (await visit.post(f"{PATH}/{row.id}/{action}")).status_code == 403
        assert PATH not in await visit.shown("/dashboard/now")
    assert {row.producer for row in await keys.list_all(edge.pool)} == {"console"}
