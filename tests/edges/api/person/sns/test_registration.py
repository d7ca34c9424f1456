"""Devices of Amazon SNS: registration makes an endpoint there and keeps it current."""

import asyncio

import pytest
import structlog

from tests.edges.api.person.sns.conftest import SnsEdge
from tests.edges.edge import faults, person, running, services
from tocsin.domain.people.devices import token_hash
from tocsin.sandbox import Cut, Hang, Outage, Refuse
from tocsin.sandbox.sns.service import call_about
from tocsin.store.pool import Pool

APPLE_TOKEN = "00fc13adff785122b4ad28809a3420982341241421348097878e577c991de8f0"


async def row(sns: SnsEdge, arn: str) -> dict[str, object]:
    found = await sns.pool.fetchrow("select * from devices where token_hash = $1", token_hash(arn))
    assert found
    return dict(found)


@pytest.mark.parametrize(
    ("platform", "token", "service"),
    [("android", "cQx:APA91b", "GCM"), ("web", "wQx:APA91b", "GCM"), ("ios", APPLE_TOKEN, "APNS")],
)
async def test_an_endpoint_is_created_for_the_app_s_token(
    sns_edge: SnsEdge, platform: str, token: str, service: str
) -> None:
    answer = await sns_edge.register("ada", token, platform)

    assert answer.status_code == 200
    arn = answer.json()["endpoint_arn"]
    endpoint = sns_edge.endpoint(arn)
    assert endpoint
    assert (endpoint.service, endpoint.token, endpoint.user_data) == (service, token, "ada")
    stored = await row(sns_edge, arn)
    assert (stored["provider"], stored["token"]) == ("sns", arn)
    assert stored["push_token_hash"] == token_hash(token)
    assert token not in repr(stored)
    (shown,) = await sns_edge.active("ada")
    assert shown["endpoint_arn"] is None


async def test_registering_again_changes_nothing(sns_edge: SnsEdge) -> None:
    first = (await sns_edge.register("ada", "t1")).json()
    again = (await sns_edge.register("ada", "t1")).json()

    assert (again["device_id"], again["endpoint_arn"]) == (first["device_id"], first["endpoint_arn"])
    assert len(sns_edge.sns.endpoints) == 1
    assert len(await sns_edge.active("ada")) == 1


async def test_an_endpoint_that_was_disabled_is_enabled_again(sns_edge: SnsEdge) -> None:
    arn = await sns_edge.arn("ada", "t1")
    endpoint = sns_edge.endpoint(arn)
    assert endpoint
    endpoint.enabled = False

    assert await sns_edge.arn("ada", "t1") == arn
    assert endpoint.enabled


async def test_an_endpoint_that_was_deleted_is_created_anew_for_the_same_device(sns_edge: SnsEdge) -> None:
    first = (await sns_edge.register("ada", "t1")).json()
    sns_edge.sns.endpoints.delete(first["endpoint_arn"])

    again = (await sns_edge.register("ada", "t1")).json()

    assert again["device_id"] == first["device_id"]
    assert again["endpoint_arn"] != first["endpoint_arn"]
    assert sns_edge.endpoint(again["endpoint_arn"])
    assert await sns_edge.pool.fetchval("select count(*) from devices") == 1


async def test_an_endpoint_moves_to_whoever_registers_its_token(sns_edge: SnsEdge) -> None:
    """To create it fails with its ARN in the error, because its user data differ."""
    arn = await sns_edge.arn("ada", "t1")

    assert await sns_edge.arn("bob", "t1") == arn

    endpoint = sns_edge.endpoint(arn)
    assert endpoint
    assert endpoint.user_data == "bob"
    assert await sns_edge.active("ada") == []
    assert len(await sns_edge.active("bob")) == 1


async def test_a_new_token_stays_with_the_endpoint_of_the_old_one(sns_edge: SnsEdge) -> None:
    first = (await sns_edge.register("ada", "t1")).json()

    again = (await sns_edge.register("ada", "t2", replaces_token="t1")).json()

    assert (again["device_id"], again["endpoint_arn"]) == (first["device_id"], first["endpoint_arn"])
    endpoint = sns_edge.endpoint(again["endpoint_arn"])
    assert endpoint
    assert endpoint.token == "t2"
    assert len(sns_edge.sns.endpoints) == 1
    assert len(await sns_edge.active("ada")) == 1


async def test_a_new_token_that_has_an_endpoint_already_brings_it_to_the_device(sns_edge: SnsEdge) -> None:
    first = (await sns_edge.register("ada", "t1")).json()
    other = (await sns_edge.register("ada", "t2")).json()

    again = (await sns_edge.register("ada", "t2", replaces_token="t1")).json()

    assert again["endpoint_arn"] == other["endpoint_arn"]
    assert again["device_id"] == first["device_id"]
    assert [device["device_id"] for device in await sns_edge.active("ada")] == [first["device_id"]]


async def test_a_replaced_token_of_somebody_else_changes_nothing_of_theirs(sns_edge: SnsEdge) -> None:
    theirs = await sns_edge.arn("bob", "t1")

    arn = await sns_edge.arn("ada", "t2", replaces_token="t1")

    assert arn != theirs
    endpoint = sns_edge.endpoint(theirs)
    assert endpoint
    assert (endpoint.token, endpoint.user_data) == ("t1", "bob")
    assert len(await sns_edge.active("bob")) == 1


async def test_after_another_platform_application_was_set_the_former_endpoint_goes(sns_edge: SnsEdge) -> None:
    first = (await sns_edge.register("ada", "t1")).json()
    former = first["endpoint_arn"].replace("fisa-android", "former-app")
    await sns_edge.pool.execute("update devices set token = $1, token_hash = $2", former, token_hash(former))

    again = (await sns_edge.register("ada", "t1")).json()

    assert again["device_id"] == first["device_id"]
    assert again["endpoint_arn"] == first["endpoint_arn"]
    assert await sns_edge.pool.fetch("select endpoint from endpoint_deletions") == [(former,)]


@pytest.mark.parametrize(
    "fault",
    [
        Refuse("Throttled"),
        Refuse("AuthorizationError"),
        Refuse("InternalError"),
        Refuse("NotFound"),
        Cut(),
        Hang(),
    ],
    ids=lambda fault: getattr(fault, "code", type(fault).__name__),
)
async def test_a_service_that_fails_is_a_problem_to_retry_and_not_an_error(
    sns_edge: SnsEdge, fault: Refuse | Cut | Hang
) -> None:
    sns_edge.sns.faults.script(call_about("CreatePlatformEndpoint", "t1"), fault)

    with structlog.testing.capture_logs() as lines:
        answer = await sns_edge.register("ada", "t1")

    assert (answer.status_code, answer.json()["code"]) == (503, "push_service_unavailable")
    assert answer.headers["retry-after"] == "60"
    assert "endpoint not registered" in {line["event"] for line in lines}
    assert "arn:" not in repr(lines) + answer.text
    assert await sns_edge.active("ada") == []
    assert await sns_edge.arn("ada", "t1")


async def test_an_outage_of_the_service_is_a_problem_too(sns_edge: SnsEdge) -> None:
    sns_edge.sns.faults.outage(Outage())

    assert (await sns_edge.register("ada", "t1")).status_code == 503


async def test_what_a_crash_left_at_sns_is_found_by_the_next_registration(sns_edge: SnsEdge) -> None:
    """The answer is lost after SNS has created the endpoint, as if the process had died there."""
    sns_edge.sns.faults.script(call_about("CreatePlatformEndpoint", "t1"), Cut(delivered=True))
    assert (await sns_edge.register("ada", "t1")).status_code == 503
    assert len(sns_edge.sns.endpoints) == 1

    arn = await sns_edge.arn("ada", "t1")

    assert sns_edge.endpoint(arn)
    assert len(sns_edge.sns.endpoints) == 1


async def test_an_endpoint_that_others_change_all_the_time_is_given_up(sns_edge: SnsEdge) -> None:
    arn = await sns_edge.arn("ada", "t1")
    sns_edge.sns.faults.script(call_about("GetEndpointAttributes", arn), Refuse("NotFound"), repeat=True)

    assert (await sns_edge.register("ada", "t1")).status_code == 503


@pytest.mark.parametrize(
    ("platform", "token", "fault"),
    [
        ("ios", "not hexadecimal", {"token": "invalid"}),
        ("android", "arn:aws:sns:eu-west-1:123456789012:endpoint/GCM/app/1", {"token": "invalid"}),
    ],
)
async def test_a_token_that_cannot_be_one_is_refused_and_not_quoted(
    sns_edge: SnsEdge, platform: str, token: str, fault: dict[str, str]
) -> None:
    answer = await sns_edge.register("ada", token, platform)

    assert (answer.status_code, faults(answer)) == (422, fault)
    assert token not in answer.text
    assert await sns_edge.active("ada") == []


async def test_without_settings_no_device_of_sns_is_registered(pool: Pool) -> None:
    async with running(services(pool)) as edge:
        body = {"token": "t1", "platform": "android", "provider": "sns"}
        answer = await edge.http.post("/v1/devices/register", json=body, headers=person("ada"))

    assert (answer.status_code, faults(answer)) == (422, {"provider": "unavailable"})


async def test_registrations_are_counted_before_sns_is_called(sns_edge: SnsEdge) -> None:
    for number in range(60):
        assert (await sns_edge.register("ada", f"t{number % 3}")).status_code == 200
    before = sns_edge.sns.counters.stats().requests

    answer = await sns_edge.register("ada", "t1")

    assert (answer.status_code, answer.json()["code"]) == (429, "rate_limited")
    assert sns_edge.sns.counters.stats().requests == before


async def test_many_registrations_of_one_token_at_once_end_as_one_device(sns_edge: SnsEdge) -> None:
    answers = await asyncio.gather(*(sns_edge.register("ada", "t1") for _ in range(8)))

    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.json()["device_id"] for answer in answers}) == 1
    assert len(sns_edge.sns.endpoints) == 1


async def test_a_token_is_reached_by_the_provider_that_it_was_registered_with_last(sns_edge: SnsEdge) -> None:
    """An app that moves from FCM to SNS, and back, gets each message once."""
    body = {"token": "t1", "platform": "android"}
    headers = person("ada")
    await sns_edge.edge.http.post("/v1/devices/register", json=body, headers=headers)
    arn = await sns_edge.arn("ada", "t1")
    assert [device["provider"] for device in await sns_edge.active("ada")] == ["sns"]

    await sns_edge.edge.http.post("/v1/devices/register", json=body, headers=headers)
    assert [device["provider"] for device in await sns_edge.active("ada")] == ["fcm"]
    await sns_edge.clean_up()
    assert sns_edge.endpoint(arn) is None

    await sns_edge.arn("bob", "t1")
    assert await sns_edge.active("ada") == []
    assert [device["provider"] for device in await sns_edge.active("bob")] == ["sns"]
