"""The calls that a delivery function makes."""

from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from typing import Any

import httpx
import pytest

from tests.catalogs import shipped
from tests.edges.edge import SECRET, Edge, faults, listening, running, services
from tocsin.api.app import create_app
from tocsin.api.auth.roles import Role
from tocsin.api.settings import AuthSettings
from tocsin.domain.people.devices import DeviceSettings
from tocsin.engine.clock import utc_now
from tocsin.store.people import devices, organisations, preferences
from tocsin.store.people.devices import DeviceRegistration, DeviceRow, Registered
from tocsin.store.people.organisations import Membership
from tocsin.store.pool import Pool
from tocsin.store.secrets.sealing import NO_KEYS, DataKeys
from tocsin.wire.person.endpoints import FIND_PATH, RETIRE_PATH

ARN = "arn:aws:sns:ap-southeast-1:123456789012:endpoint/GCM/app/{}"


@pytest.fixture
async def edge(pool: Pool) -> AsyncIterator[Edge]:
    parts = services(pool)
    async with (
        listening(create_app(parts, shipped()), parts.http) as url,
        httpx.AsyncClient(base_url=url, timeout=20) as http,
    ):
        yield Edge(http, pool)


async def register(
    pool: Pool, user_id: str, token: str, provider: str = "sns", keys: DataKeys = NO_KEYS
) -> DeviceRow:
    wanted = DeviceRegistration(user_id=user_id, token=token, platform="android", provider=provider)
    result = await devices.register(pool, wanted, DeviceSettings(), utc_now(), keys)
    assert isinstance(result, Registered)
    return result.device


async def find(
    edge: Edge, user_ids: Sequence[str | int], type_: str | None = None, **more: str
) -> list[dict[str, Any]]:
    body = {"user_ids": user_ids, **more} | ({"type": type_} if type_ else {})
    answer = await edge.http.post(FIND_PATH, json=body, headers=await edge.key(Role.DELIVERY))
    assert answer.status_code == 200, answer.text
    people: list[dict[str, Any]] = answer.json()["people"]
    return people


def arns(people: list[dict[str, Any]]) -> dict[str, set[str]]:
    return {each["user_id"]: {one["endpoint_arn"] for one in each.get("endpoints", [])} for each in people}


async def test_each_person_has_the_active_endpoints_of_sns_alone(edge: Edge) -> None:
    ada = await register(edge.pool, "ada", ARN.format(1))
    await register(edge.pool, "ada", ARN.format(2))
    await register(edge.pool, "ada", "a-token-of-fcm", provider="fcm")
    muted = await register(edge.pool, "ada", ARN.format(3))
    async with edge.pool.acquire() as connection:
        await devices.set_consent(connection, "ada", muted.id, push_enabled=False)
    await register(edge.pool, "42", ARN.format(4))
    gone = await register(edge.pool, "42", ARN.format(5))
    async with edge.pool.acquire() as connection:
        await devices.unregister(connection, "42", device_id=gone.id, now=utc_now())

    people = await find(edge, ["nobody", "ada", 42, "ada"])

    assert [each["user_id"] for each in people] == ["nobody", "ada", "42"]
    assert arns(people) == {"nobody": set(), "ada": {ARN.format(1), ARN.format(2)}, "42": {ARN.format(4)}}
    first = next(one for one in people[1]["endpoints"] if one["endpoint_arn"] == ARN.format(1))
    assert (first["device_id"], first["platform"]) == (str(ada.id), "android")


@pytest.mark.parametrize(
    ("choices", "type_", "reached"),
    [
        ({"customers": {"push": False}}, "new_customer", False),
        ({"customers": {"push": False}}, None, True),
        ({"customers": {"push": False}}, "not_in_the_catalog", True),
        ({"customers": {"email": False}}, "new_customer", True),
        ({"offers": {"push": False}}, "new_customer", True),
    ],
)
async def test_who_opted_out_of_the_category_of_the_type_is_left_out(
    edge: Edge, choices: dict[str, Any], type_: str | None, *, reached: bool
) -> None:
    assert shipped().types["new_customer"].category == "customers"
    await register(edge.pool, "ada", ARN.format(1))
    await register(edge.pool, "bob", ARN.format(2))
    await preferences.change(edge.pool, "ada", choices, utc_now())

    people = await find(edge, ["ada", "bob"], type_)

    assert arns(people) == {"ada": {ARN.format(1)} if reached else set(), "bob": {ARN.format(2)}}
    assert people[0].get("skipped") == (None if reached else "opted_out")


async def test_sealed_endpoints_are_opened_and_one_that_cannot_be_is_left_out(pool: Pool) -> None:
    ours, lost = DataKeys(b"o" * 32), DataKeys(b"l" * 32)
    await register(pool, "ada", ARN.format(1), keys=ours)
    await register(pool, "ada", ARN.format(2), keys=lost)
    async with running(services(pool, data_keys=ours)) as edge:
        [ada] = await find(edge, ["ada"])

    assert arns([ada]) == {"ada": {ARN.format(1)}}
    assert ada["unreadable"] == 1


async def test_an_endpoint_is_retired_once_with_the_code_of_sns(edge: Edge) -> None:
    device = await register(edge.pool, "ada", ARN.format(1))
    headers = await edge.key(Role.DELIVERY)
    body = {"endpoint_arn": ARN.format(1), "code": "EndpointDisabled"}

    answers = [(await edge.http.post(RETIRE_PATH, json=body, headers=headers)).json() for _ in range(2)]

    assert answers == [{"retired": True}, {"retired": False}]
    async with edge.pool.acquire() as connection:
        [row] = await devices.of_user(connection, "ada", include_retired=True)
    assert (row.id, row.retired_reason) == (device.id, "gone: EndpointDisabled")
    assert arns(await find(edge, ["ada"])) == {"ada": set()}


async def test_an_endpoint_registered_again_meanwhile_is_kept(edge: Edge) -> None:
    await register(edge.pool, "ada", ARN.format(1))
    [found] = (await find(edge, ["ada"]))[0]["endpoints"]
    wanted = DeviceRegistration(user_id="ada", token=ARN.format(1), platform="android", provider="sns")
    await devices.register(edge.pool, wanted, DeviceSettings(), utc_now() + timedelta(seconds=1))
    headers = await edge.key(Role.DELIVERY)
    body = {"endpoint_arn": ARN.format(1), "code": "NotFound", "last_seen_at": found["last_seen_at"]}

    answer = await edge.http.post(RETIRE_PATH, json=body, headers=headers)

    assert answer.json() == {"retired": False}
    assert arns(await find(edge, ["ada"])) == {"ada": {ARN.format(1)}}


async def test_a_time_beyond_the_calendar_is_refused(edge: Edge) -> None:
    body = {"endpoint_arn": "x", "code": "y", "last_seen_at": "0001-01-01T00:00:00+23:00"}

    answer = await edge.http.post(RETIRE_PATH, json=body, headers=await edge.key(Role.DELIVERY))

    assert answer.status_code == 422
    assert faults(answer) == {"last_seen_at": "out_of_range"}


async def test_no_device_of_another_provider_is_retired(edge: Edge) -> None:
    await register(edge.pool, "ada", "a-token-of-fcm", provider="fcm")
    body = {"endpoint_arn": "a-token-of-fcm", "code": "NotFound"}

    answer = await edge.http.post(RETIRE_PATH, json=body, headers=await edge.key(Role.DELIVERY))

    assert answer.json() == {"retired": False}


@pytest.mark.parametrize(
    ("role", "status"),
    [
        (Role.DELIVERY, 200),
        (Role.ADMIN, 200),
        (Role.PRODUCER, 403),
        (Role.OPERATOR, 403),
        (Role.VIEWER, 403),
    ],
)
async def test_a_key_for_delivery_may_make_these_calls_and_no_others(
    edge: Edge, role: Role, status: int
) -> None:
    headers = await edge.key(role)
    found = await edge.http.post(FIND_PATH, json={"user_ids": ["ada"]}, headers=headers)
    retired = await edge.http.post(RETIRE_PATH, json={"endpoint_arn": "x", "code": "y"}, headers=headers)
    assert [found.status_code, retired.status_code] == [status, status]
    if role is Role.DELIVERY:
        others = [
            await edge.http.get(path, headers=headers)
            for path in ("/v1/users/ada", "/v1/notifications", "/v1/admin/toggles", "/v1/admin/keys")
        ]
        assert {answer.status_code for answer in others} == {403}


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ({"user_ids": []}, "user_ids"),
        ({"user_ids": ["x"] * 101}, "user_ids"),
        ({"user_ids": ["a\x00"]}, "user_ids[0]"),
        ({"user_ids": ["ada"], "kind": 1}, "kind"),
    ],
)
async def test_a_body_that_does_not_fit_is_refused(edge: Edge, body: dict[str, Any], fault: str) -> None:
    answer = await edge.http.post(FIND_PATH, json=body, headers=await edge.key(Role.DELIVERY))

    assert answer.status_code == 422
    assert list(faults(answer)) == [fault]


@pytest.mark.parametrize("org_scoping", [True, False])
async def test_where_organisations_are_kept_apart_people_of_another_are_left_out(
    pool: Pool, *, org_scoping: bool
) -> None:
    auth = AuthSettings(jwt_secret=SECRET, org_scoping=org_scoping)
    async with running(services(pool, auth=auth)) as edge:
        for number, (user_id, org_id) in enumerate([("ada", "org-1"), ("bob", "org-2"), ("cid", None)]):
            await register(pool, user_id, ARN.format(number))
            async with pool.acquire() as connection:
                await organisations.add(connection, user_id, utc_now())
                await organisations.change(connection, user_id, Membership(org_id, {}), utc_now())

        people = await find(edge, ["ada", "bob", "cid"], org_id="org-1")
        unnamed = await find(edge, ["ada", "bob", "cid"])

    left_out = "not_your_organisation" if org_scoping else None
    assert [each.get("skipped") for each in people] == [None, left_out, left_out]
    assert [len(each.get("endpoints", [])) for each in people] == ([1, 0, 0] if org_scoping else [1, 1, 1])
    assert [len(each["endpoints"]) for each in unnamed] == [1, 1, 1]
