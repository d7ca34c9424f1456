import asyncio
import base64
import json
from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.edges.edge import Edge, faults, person, running, services
from tests.providers.rig import HOSTILE_HOSTS
from tests.rows import add_device
from tocsin.domain.people.devices import DeviceSettings, short_hash, token_hash
from tocsin.store.pool import Pool

REGISTER = "/v1/devices/register"
UNREGISTER = "/v1/devices/unregister"


async def register(edge: Edge, who: str, token: str, **more: Any) -> httpx.Response:
    body = {"token": token, "platform": "android", **more}
    return await edge.http.post(REGISTER, json=body, headers=person(who))


async def own(edge: Edge, user_id: str, query: str = "") -> list[dict[str, Any]]:
    answer = await edge.http.get(f"/v1/devices{query}", headers=person(user_id))
    assert answer.status_code == 200
    devices: list[dict[str, Any]] = answer.json()["devices"]
    return devices


async def test_a_registered_device_is_shown_without_its_token(edge: Edge) -> None:
    answer = await register(
        edge, "ada", "secret-token", locale="tr_tr", timezone="Europe/Istanbul", app_version="1.2"
    )

    assert answer.status_code == 200
    device = answer.json()
    assert device["user_id"] == "ada"
    assert (device["provider"], device["platform"], device["locale"]) == ("fcm", "android", "tr-TR")
    assert (device["push_enabled"], device["notification_count"]) == (True, 0)
    assert device["token_hash"] == short_hash(token_hash("secret-token"))
    assert "secret-token" not in answer.text
    assert await own(edge, "ada") == [device]


async def test_a_token_moves_with_its_new_owner_and_keeps_its_id(edge: Edge) -> None:
    first = (await register(edge, "ada", "t1")).json()
    second = (await register(edge, "bob", "t1")).json()

    assert second["device_id"] == first["device_id"]
    assert await own(edge, "ada") == []
    assert [device["user_id"] for device in await own(edge, "bob")] == ["bob"]


@pytest.mark.parametrize("user_id", ["bob", 43, "42 "])
async def test_another_persons_user_id_is_refused(edge: Edge, user_id: object) -> None:
    answer = await register(edge, "42", "t1", user_id=user_id)

    assert (answer.status_code, answer.json()["code"]) == (403, "not_your_user")
    assert await own(edge, "42") == []


@pytest.mark.parametrize("user_id", ["42", 42])
async def test_ones_own_user_id_may_be_text_or_number(edge: Edge, user_id: object) -> None:
    assert (await register(edge, "42", "t1", user_id=user_id)).status_code == 200


async def test_every_fault_of_a_registration_is_named(edge: Edge) -> None:
    answer = await edge.http.post(
        REGISTER,
        json={
            "token": "   ",
            "platform": "fridge",
            "provider": "pigeon",
            "locale": "not a locale",
            "timezone": "Mars/Olympus",
            "app_version": 7,
            "colour": "red",
        },
        headers=person("ada"),
    )

    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_body")
    assert answer.headers["content-type"] == "application/problem+json"
    assert faults(answer) == {
        "token": "invalid",
        "platform": "invalid",
        "provider": "invalid",
        "locale": "invalid",
        "timezone": "invalid",
        "app_version": "invalid",
        "colour": "unknown",
    }
    assert "must be one of ios, android, web" in answer.text


@pytest.mark.parametrize("token", ["", " ", "a\nb", "a\x7f", "x" * 4097, None, "a\x00b"])
async def test_a_bad_token_is_refused(edge: Edge, token: str | None) -> None:
    answer = await edge.http.post(REGISTER, json={"token": token, "platform": "ios"}, headers=person("ada"))

    assert answer.status_code == 422
    assert set(faults(answer)) == {"token"}


POINT = base64.urlsafe_b64encode(b"\x04" + bytes(64)).decode()
AUTH = base64.urlsafe_b64encode(bytes(16)).decode()
SUBSCRIPTION = json.dumps({"endpoint": "https://push.example.com/1", "keys": {"p256dh": POINT, "auth": AUTH}})


SPELT_OTHERWISE = (
    json.dumps(
        {
            "keys": {"auth": AUTH.rstrip("="), "p256dh": POINT.rstrip("=")},
            "expirationTime": None,
            "endpoint": "https://push.example.com/1",
        },
        indent=1,
    )
    .replace("/", "\\/")
    .replace("\n", " ")
)


@pytest.mark.parametrize(
    ("provider", "token", "again"),
    [
        ("webpush", SUBSCRIPTION, SPELT_OTHERWISE),
        ("apns", "00fc13adff785122", "00FC13ADFF785122"),
        ("apns", "00FC13ADFF785122", "00fc13adff785122"),
    ],
)
async def test_a_token_spelt_otherwise_moves_with_its_new_owner(
    edge: Edge, provider: str, token: str, again: str
) -> None:
    first = (await register(edge, "ada", token, provider=provider)).json()
    answer = await register(edge, "bob", again, provider=provider)

    assert answer.status_code == 200
    second = answer.json()
    assert (second["device_id"], second["token_hash"]) == (first["device_id"], first["token_hash"])
    assert await own(edge, "ada") == []
    assert [device["device_id"] for device in await own(edge, "bob")] == [first["device_id"]]
    assert [row["token"] for row in await edge.pool.fetch("select token from devices")] == [again]


@pytest.mark.parametrize(
    ("provider", "token", "other"),
    [
        ("webpush", SUBSCRIPTION, SUBSCRIPTION.replace("/1", "/2")),
        ("fcm", "cased:APA91bToken", "cased:apa91bToken"),
    ],
)
async def test_tokens_that_differ_are_two_devices(edge: Edge, provider: str, token: str, other: str) -> None:
    await register(edge, "ada", token, provider=provider)
    await register(edge, "bob", other, provider=provider)

    assert [len(await own(edge, user_id)) for user_id in ("ada", "bob")] == [1, 1]


@pytest.mark.parametrize(
    ("provider", "token"),
    [
        ("apns", "00fc13adff785122"),
        ("expo", "ExponentPushToken[abc]"),
        ("webpush", SUBSCRIPTION),
    ],
)
async def test_a_device_may_be_reached_by_another_provider(edge: Edge, provider: str, token: str) -> None:
    answer = await register(edge, "ada", token, provider=provider)

    assert answer.status_code == 200
    assert (answer.json()["provider"], answer.json()["token_kind"]) == (provider, "token")


@pytest.mark.parametrize(
    ("provider", "token"),
    [
        ("expo", "cQx:APA91b-s3cret"),
        ("webpush", "cQx:APA91b-s3cret"),
        ("webpush", SUBSCRIPTION.replace("https", "http")),
    ],
)
async def test_a_token_of_another_provider_is_refused_and_not_quoted(
    edge: Edge, provider: str, token: str
) -> None:
    answer = await register(edge, "ada", token, provider=provider)

    assert (answer.status_code, faults(answer)) == (422, {"token": "invalid"})
    assert token not in answer.text
    assert await own(edge, "ada") == []


@pytest.mark.parametrize("host", HOSTILE_HOSTS)
async def test_a_subscription_at_a_host_that_cannot_be_is_refused(edge: Edge, host: str) -> None:
    token = SUBSCRIPTION.replace("push.example.com", host)
    assert host in token

    answer = await register(edge, "ada", token, provider="webpush")

    assert (answer.status_code, faults(answer)) == (422, {"token": "invalid"})
    assert await own(edge, "ada") == []


async def test_no_webhook_is_registered_as_a_device(edge: Edge) -> None:
    answer = await register(edge, "ada", "https://example.com/hook", provider="webhook")

    assert (answer.status_code, faults(answer)) == (422, {"provider": "invalid"})


async def test_the_address_of_an_endpoint_cannot_be_taken(edge: Edge) -> None:
    await add_device(edge.pool, user_id="shop", provider="webhook", token="https://example.com/hook")

    answer = await register(edge, "ada", "https://example.com/hook")

    assert (answer.status_code, faults(answer)) == (422, {"token": "invalid"})
    assert await own(edge, "shop") == []


async def test_an_installation_may_be_known_by_its_id(edge: Edge) -> None:
    answer = await register(edge, "ada", "cQx1-abc", token_kind="fid")

    assert (answer.status_code, answer.json()["token_kind"]) == (200, "fid")
    assert [device["token_kind"] for device in await own(edge, "ada")] == ["fid"]


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"token_kind": "fid", "provider": "apns"}, {"token_kind": "contradiction"}),
        ({"token_kind": "fid", "provider": "expo"}, {"token": "invalid", "token_kind": "contradiction"}),
        ({"token_kind": "topic"}, {"token_kind": "invalid"}),
    ],
)
async def test_only_fcm_takes_the_id_of_an_installation(
    edge: Edge, more: dict[str, str], expected: dict[str, str]
) -> None:
    answer = await register(edge, "ada", "cQx1-abc", **more)

    assert (answer.status_code, faults(answer)) == (422, expected)


async def test_a_stale_device_is_shown_as_such_till_it_registers_again(edge: Edge) -> None:
    await register(edge, "ada", "t1")
    await edge.pool.execute("update devices set stale_at = now()")

    assert [device["stale"] for device in await own(edge, "ada")] == [True]
    assert (await register(edge, "ada", "t1")).json()["stale"] is False


async def test_the_longest_token_is_taken(edge: Edge) -> None:
    assert (await register(edge, "ada", "x" * 4096)).status_code == 200


async def test_a_missing_field_is_named(edge: Edge) -> None:
    answer = await edge.http.post(REGISTER, json={}, headers=person("ada"))

    assert faults(answer) == {"token": "missing", "platform": "missing"}


async def test_a_refreshed_token_keeps_the_device_and_what_the_person_said(edge: Edge) -> None:
    old = (await register(edge, "ada", "old")).json()
    await edge.pool.execute("update devices set notification_count = 9")
    address = f"/v1/devices/{old['device_id']}"
    await edge.http.patch(address, json={"push_enabled": False}, headers=person("ada"))

    new = (await register(edge, "ada", "new", replaces_token="old")).json()

    kept = {"device_id": old["device_id"], "push_enabled": False, "notification_count": 9}
    assert new | kept == new
    assert new["token_hash"] != old["token_hash"]
    retired = (await own(edge, "ada", "?include_retired=true"))[1]
    assert (retired["token_hash"], retired["retired_reason"]) == (old["token_hash"], "replaced")


async def test_unregistering_retires_and_can_be_repeated(edge: Edge) -> None:
    device = (await register(edge, "ada", "t1")).json()

    first = await edge.http.post(UNREGISTER, json={"token": "t1"}, headers=person("ada"))
    second = await edge.http.post(UNREGISTER, json={"device_id": device["device_id"]}, headers=person("ada"))

    assert first.status_code == second.status_code == 200
    assert first.json() == second.json()
    assert first.json()["retired_reason"] == "unregistered"
    assert await own(edge, "ada") == []
    assert len(await own(edge, "ada", "?include_retired=true")) == 1
    assert await edge.pool.fetchval("select count(*) from devices") == 1


async def test_someone_elses_device_is_as_good_as_unknown(edge: Edge) -> None:
    device_id = (await register(edge, "ada", "t1")).json()["device_id"]
    bob = person("bob")

    answers = [
        await edge.http.post(UNREGISTER, json={"token": "t1"}, headers=bob),
        await edge.http.post(UNREGISTER, json={"device_id": device_id}, headers=bob),
        await edge.http.post(UNREGISTER, json={"device_id": str(uuid4())}, headers=bob),
        await edge.http.patch(f"/v1/devices/{device_id}", json={"push_enabled": False}, headers=bob),
        await edge.http.patch("/v1/devices/nonsense", json={"push_enabled": False}, headers=bob),
    ]

    assert {(answer.status_code, answer.json()["code"]) for answer in answers} == {(404, "not_found")}
    assert (await own(edge, "ada"))[0]["push_enabled"] is True


@pytest.mark.parametrize("body", [{}, {"token": "t1", "device_id": str(uuid4())}])
async def test_unregistering_names_one_device(edge: Edge, body: dict[str, str]) -> None:
    answer = await edge.http.post(UNREGISTER, json=body, headers=person("ada"))

    assert (answer.status_code, faults(answer)) == (422, {"$": "one_of"})


async def test_consent_is_kept_per_device(edge: Edge) -> None:
    first = (await register(edge, "ada", "t1")).json()
    await register(edge, "ada", "t2")

    answer = await edge.http.patch(
        f"/v1/devices/{first['device_id']}", json={"push_enabled": False}, headers=person("ada")
    )

    assert (answer.status_code, answer.json()["push_enabled"]) == (200, False)
    assert {device["device_id"]: device["push_enabled"] for device in await own(edge, "ada")} == {
        first["device_id"]: False,
        (await register(edge, "ada", "t2")).json()["device_id"]: True,
    }


async def test_an_unknown_query_parameter_is_named(edge: Edge) -> None:
    answer = await edge.http.get("/v1/devices?include_retired=perhaps&page=2", headers=person("ada"))

    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_query")
    assert faults(answer) == {"include_retired": "invalid", "page": "unknown"}


async def test_registrations_are_rate_limited_per_person(pool: Pool) -> None:
    rules = DeviceSettings(registrations_per_hour=2)
    async with running(services(pool, devices=rules)) as edge:
        for number in range(2):
            assert (await register(edge, "ada", f"t{number}")).status_code == 200
        refused = await register(edge, "ada", "t3")

        assert (refused.status_code, refused.json()["code"]) == (429, "rate_limited")
        assert 3_590 <= int(refused.headers["retry-after"]) <= 3_600
        assert (await register(edge, "bob", "t3")).status_code == 200


async def test_twenty_phones_registering_at_once_leave_five(edge: Edge) -> None:
    answers = await asyncio.gather(*(register(edge, "ada", f"t{number}") for number in range(20)))

    assert {answer.status_code for answer in answers} == {200}
    assert len(await own(edge, "ada")) == 5
    everything = await own(edge, "ada", "?include_retired=true")
    assert {device["retired_reason"] for device in everything} == {None, "too_many_devices"}
    assert len(everything) == 20


async def test_a_token_that_twenty_people_register_at_once_has_one_owner(edge: Edge) -> None:
    answers = await asyncio.gather(*(register(edge, f"user{number}", "t1") for number in range(20)))

    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.json()["device_id"] for answer in answers}) == 1
    owner = await edge.pool.fetchval("select user_id from devices where retired_at is null")
    assert len(await own(edge, owner)) == 1
    assert await edge.pool.fetchval("select count(*) from devices") == 1
