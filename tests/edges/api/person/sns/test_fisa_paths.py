"""The paths of fisa's own document, with its own fields."""

from typing import Any

import pytest

from tests.edges.api.person.sns.conftest import SnsEdge
from tests.edges.edge import faults, person, running, services
from tocsin.domain.errors import SettingsError
from tocsin.sandbox import Outage
from tocsin.settings.load import load_settings
from tocsin.store.pool import Pool

PATH = "/api/v1/notifications/devices"
APPLE_TOKEN = "00fc13adff785122b4ad28809a3420982341241421348097878e577c991de8f0"


async def call(sns: SnsEdge, action: str, user_id: str = "ada", **body: Any) -> Any:
    return await sns.edge.http.post(f"{PATH}/{action}", json=body, headers=person(user_id))


@pytest.mark.parametrize(
    ("body", "service", "token"),
    [
        ({"platform": "android", "fcm_token": "t1", "apns_token": None}, "GCM", "t1"),
        ({"platform": "web", "fcm_token": "t1"}, "GCM", "t1"),
        ({"platform": "ios", "apns_token": APPLE_TOKEN, "fcm_token": "t1"}, "APNS", APPLE_TOKEN),
    ],
)
async def test_a_device_is_registered_with_the_token_of_its_platform(
    sns_edge: SnsEdge, body: dict[str, Any], service: str, token: str
) -> None:
    answer = await call(sns_edge, "register", **body, device_model="Pixel 9", app_version="2.1")

    assert answer.status_code == 200
    assert answer.json().keys() == {"endpoint_arn"}
    endpoint = sns_edge.endpoint(answer.json()["endpoint_arn"])
    assert endpoint
    assert (endpoint.service, endpoint.token, endpoint.user_data) == (service, token, "ada")
    (device,) = await sns_edge.active("ada")
    assert (device["provider"], device["platform"]) == ("sns", body["platform"])
    assert (device["device_model"], device["app_version"]) == ("Pixel 9", "2.1")


@pytest.mark.parametrize("by", ["endpoint_arn", "fcm_token"])
async def test_a_device_is_unregistered_and_repeating_it_is_harmless(sns_edge: SnsEdge, by: str) -> None:
    arn = (await call(sns_edge, "register", platform="android", fcm_token="t1")).json()["endpoint_arn"]
    which = {by: {"endpoint_arn": arn, "fcm_token": "t1"}[by]}

    assert (await call(sns_edge, "unregister", **which)).status_code == 200
    assert (await call(sns_edge, "unregister", **which)).status_code == 200
    await sns_edge.clean_up()

    assert sns_edge.endpoint(arn) is None
    assert await sns_edge.active("ada") == []


async def test_nobody_unregisters_what_is_not_theirs(sns_edge: SnsEdge) -> None:
    arn = await sns_edge.arn("ada", "t1")

    assert (await call(sns_edge, "unregister", "bob", endpoint_arn=arn)).status_code == 404
    assert len(await sns_edge.active("ada")) == 1


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"platform": "ios", "fcm_token": "t1"}, {"apns_token": "missing"}),
        ({"platform": "android"}, {"fcm_token": "missing"}),
        ({"platform": "android", "fcm_token": "  "}, {"fcm_token": "missing"}),
        ({"platform": "tv", "fcm_token": "t1"}, {"platform": "invalid"}),
        ({"platform": "ios", "apns_token": "zz"}, {"token": "invalid"}),
    ],
)
async def test_a_body_with_faults_is_refused(
    sns_edge: SnsEdge, body: dict[str, Any], expected: dict[str, str]
) -> None:
    answer = await call(sns_edge, "register", **body)

    assert (answer.status_code, faults(answer)) == (422, expected)


async def test_a_token_is_needed_and_an_outage_is_a_problem(sns_edge: SnsEdge) -> None:
    body = {"platform": "android", "fcm_token": "t1"}
    assert (await sns_edge.edge.http.post(f"{PATH}/register", json=body)).status_code == 401
    sns_edge.sns.faults.outage(Outage())

    answer = await call(sns_edge, "register", **body)

    assert (answer.status_code, answer.headers["retry-after"]) == (503, "60")


async def test_they_are_documented_where_they_are_on(sns_edge: SnsEdge) -> None:
    paths = (await sns_edge.edge.http.get("/openapi.json")).json()["paths"]

    assert {f"{PATH}/register", f"{PATH}/unregister"} <= paths.keys()


async def test_they_are_off_by_default(pool: Pool) -> None:
    async with running(services(pool)) as edge:
        answer = await edge.http.post(f"{PATH}/register", json={}, headers=person("ada"))
        paths = (await edge.http.get("/openapi.json")).json()["paths"]

    assert answer.status_code == 404
    assert not [path for path in paths if path.startswith("/api/")]


def test_without_sns_they_stop_the_start() -> None:
    with pytest.raises(SettingsError) as raised:
        load_settings({"TOCSIN_HTTP__FISA_PATHS": "true"})

    assert [fault.field.partition(" ")[0] for fault in raised.value.faults] == ["http.fisa_paths"]
