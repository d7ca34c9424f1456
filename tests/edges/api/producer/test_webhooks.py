import re
import time
from typing import Any

import pytest

from tests.edges.edge import Edge, faults, person, running, services
from tests.providers.rig import HOSTILE_HOSTS
from tocsin.api.auth.roles import Role
from tocsin.providers.webhook.settings import WebhookSettings
from tocsin.store.pool import Pool

URL = "https://hooks.example.com/tocsin?shop=7"
PATH = "/v1/users/ada/webhooks"
HOSTS_IN_ASCII = [host for host in HOSTILE_HOSTS if host.isascii()]


async def added(edge: Edge, headers: dict[str, str], url: str = URL, user: str = "ada") -> dict[str, Any]:
    answer = await edge.http.post(f"/v1/users/{user}/webhooks", json={"url": url}, headers=headers)
    assert answer.status_code == 201
    shown: dict[str, Any] = answer.json()
    return shown


async def stored_secret(edge: Edge, endpoint_id: str) -> str:
    secret: str = await edge.pool.fetchval("select secret from devices where id = $1", endpoint_id)
    return secret


async def test_an_endpoint_is_registered_and_its_secret_shown_once(edge: Edge) -> None:
    headers = await edge.key(Role.PRODUCER)

    made = await added(edge, headers)
    listed = await edge.http.get(PATH, headers=headers)

    assert re.fullmatch(r"whsec_[A-Za-z0-9+/]{43}=", made["secret"])
    assert (made["user_id"], made["url"]) == ("ada", URL)
    (endpoint,) = listed.json()["webhooks"]
    assert (endpoint["endpoint_id"], endpoint["url"]) == (made["endpoint_id"], URL)
    assert endpoint["notification_count"] == 0
    assert "whsec_" not in listed.text


async def test_each_endpoint_has_a_secret_of_its_own(edge: Edge) -> None:
    headers = await edge.key(Role.PRODUCER)

    made = [await added(edge, headers, user=user) for user in ("ada", "bob")]

    assert made[0]["endpoint_id"] != made[1]["endpoint_id"]
    assert made[0]["secret"] != made[1]["secret"]


async def test_a_url_registered_already_is_named(edge: Edge) -> None:
    headers = await edge.key(Role.PRODUCER)
    made = await added(edge, headers)

    again = await edge.http.post(PATH, json={"url": URL}, headers=headers)

    assert (again.status_code, faults(again)) == (422, {"url": "repeated"})
    assert made["endpoint_id"] in again.text
    assert await stored_secret(edge, made["endpoint_id"]) == made["secret"]


async def test_an_eleventh_endpoint_is_one_too_many(edge: Edge) -> None:
    headers = await edge.key(Role.PRODUCER)
    for number in range(10):
        await added(edge, headers, f"{URL}{number}")

    answer = await edge.http.post(PATH, json={"url": URL}, headers=headers)

    assert (answer.status_code, faults(answer)) == (422, {"url": "too_many"})


@pytest.mark.parametrize(
    "url",
    [
        "",
        "hook",
        "http://hooks.example.com/",
        "https://",
        "https://ada:pw@hooks.example.com/",
        "https://hooks.example.com/a b",
        "https://hooks.example.com/\n",
        "https://hooks.example.com/" + "x" * 2_048,
        7,
    ],
)
async def test_what_cannot_be_called_is_refused(edge: Edge, url: object) -> None:
    answer = await edge.http.post(PATH, json={"url": url}, headers=await edge.key(Role.PRODUCER))

    assert (answer.status_code, faults(answer)) == (422, {"url": "invalid"})


@pytest.mark.parametrize("host", HOSTS_IN_ASCII)
async def test_a_host_that_no_dns_name_can_be_is_refused(edge: Edge, host: str) -> None:
    url = f"https://{host}/x"

    answer = await edge.http.post(PATH, json={"url": url}, headers=await edge.key(Role.PRODUCER))

    assert (answer.status_code, faults(answer)) == (422, {"url": "invalid"})


async def test_the_longest_host_there_can_be_is_registered(edge: Edge) -> None:
    host = ".".join(["a" * 63] * 3 + ["b" * 57, "com"])
    assert len(host) == 253

    assert (await added(edge, await edge.key(Role.PRODUCER), f"https://{host}/x"))["url"].startswith("https")


PRIVATE = [
    "https://127.0.0.1/hook",
    "https://0x7f000001/hook",
    "https://10.0.0.8:8443/hook",
    "https://[::1]/hook",
    "https://[::ffff:169.254.169.254]/latest/meta-data",
    "https://localhost/hook",
    "https://LOCALHOST/hook",
    "https://db.internal/hook",
    "https://redis/hook",
]


@pytest.mark.parametrize("url", PRIVATE)
async def test_an_address_within_a_private_network_is_refused(edge: Edge, url: str) -> None:
    answer = await edge.http.post(PATH, json={"url": url}, headers=await edge.key(Role.PRODUCER))

    assert (answer.status_code, faults(answer)) == (422, {"url": "address_refused"})
    assert "TOCSIN_WEBHOOK__ALLOW_PRIVATE_ADDRESSES" in answer.text
    assert await edge.pool.fetchval("select count(*) from devices") == 0


async def test_private_addresses_are_registered_where_the_settings_allow_it(pool: Pool) -> None:
    allowed = WebhookSettings(allow_private_addresses=True)
    async with running(services(pool, webhook=allowed)) as edge:
        headers = await edge.key(Role.PRODUCER)

        assert [(await added(edge, headers, url))["url"] for url in PRIVATE] == PRIVATE


async def test_a_name_is_registered_wherever_it_leads_at_present(edge: Edge) -> None:
    await added(edge, await edge.key(Role.PRODUCER), "https://nobody.invalid/hook")


async def test_a_retired_endpoint_is_listed_only_when_asked_for(edge: Edge) -> None:
    headers = await edge.key(Role.OPERATOR)
    made = await added(edge, headers)

    retired = await edge.http.delete(f"{PATH}/{made['endpoint_id']}", headers=headers)
    active = await edge.http.get(PATH, headers=headers)
    everything = await edge.http.get(PATH, params={"include_retired": True}, headers=headers)

    assert (retired.status_code, retired.json()["retired_reason"]) == (200, "unregistered")
    assert active.json() == {"webhooks": []}
    assert everything.json() == {"webhooks": [retired.json()]}
    assert "secret" not in retired.json()


async def test_a_rotation_keeps_the_secret_before_it_for_a_while(edge: Edge) -> None:
    headers = await edge.key(Role.PRODUCER)
    made = await added(edge, headers)

    answer = await edge.http.post(f"{PATH}/{made['endpoint_id']}/rotate", headers=headers)

    new = answer.json()["secret"]
    assert answer.status_code == 200
    assert new != made["secret"]
    kept = await stored_secret(edge, made["endpoint_id"])
    assert re.fullmatch(re.escape(f"{new} {made['secret']}@") + r"\d{10}", kept)


async def test_the_overlap_of_a_rotation_can_be_chosen_and_is_audited(edge: Edge) -> None:
    headers = await edge.key(Role.PRODUCER)
    made = await added(edge, headers)
    path = f"{PATH}/{made['endpoint_id']}/rotate"
    before = int(time.time())

    longer = await edge.http.post(path, json={"overlap_seconds": 604_800}, headers=headers)
    kept = await stored_secret(edge, made["endpoint_id"])
    at_once = await edge.http.post(path, json={"overlap_seconds": 0}, headers=headers)
    wrong = await edge.http.post(path, json={"overlap_seconds": -1}, headers=headers)

    assert kept.startswith(f"{longer.json()['secret']} {made['secret']}@")
    assert 604_800 <= int(kept.rpartition("@")[2]) - before < 604_860
    assert await stored_secret(edge, made["endpoint_id"]) == at_once.json()["secret"]
    assert faults(wrong) == {"overlap_seconds": "invalid"}
    rows = await edge.pool.fetch("select subject, details ->> 'overlap_seconds' from audit order by id")
    assert [tuple(row) for row in rows] == [
        (f"webhook:{made['endpoint_id']}", "604800.0"),
        (f"webhook:{made['endpoint_id']}", "0.0"),
    ]
    recorded = await edge.pool.fetchval("select string_agg(audit::text, '') from audit")
    assert "whsec_" not in recorded


@pytest.mark.parametrize("endpoint_id", ["019ca939-3a7b-7003-a1b2-c3d4e5f60718", "nothing"])
async def test_an_unknown_endpoint_is_not_found(edge: Edge, endpoint_id: str) -> None:
    headers = await edge.key(Role.PRODUCER)

    for answer in (
        await edge.http.delete(f"{PATH}/{endpoint_id}", headers=headers),
        await edge.http.post(f"{PATH}/{endpoint_id}/rotate", headers=headers),
    ):
        assert (answer.status_code, answer.json()["code"]) == (404, "not_found")


async def test_another_persons_endpoint_is_not_found(edge: Edge) -> None:
    headers = await edge.key(Role.PRODUCER)
    made = await added(edge, headers, user="bob")

    for answer in (
        await edge.http.delete(f"{PATH}/{made['endpoint_id']}", headers=headers),
        await edge.http.post(f"{PATH}/{made['endpoint_id']}/rotate", headers=headers),
    ):
        assert answer.status_code == 404
    assert await stored_secret(edge, made["endpoint_id"]) == made["secret"]


@pytest.mark.parametrize("user_id", ["%00", "a%0Ab", "x" * 129])
async def test_a_bad_user_id_names_nobody(edge: Edge, user_id: str) -> None:
    headers = await edge.key(Role.PRODUCER)
    path = f"/v1/users/{user_id}/webhooks"

    assert (await edge.http.get(path, headers=headers)).status_code == 404
    assert (await edge.http.post(path, json={"url": URL}, headers=headers)).status_code == 404


async def test_only_a_key_that_may_write_the_directory_changes_endpoints(edge: Edge) -> None:
    made = await added(edge, await edge.key(Role.PRODUCER))
    viewer = await edge.key(Role.VIEWER)
    one = f"{PATH}/{made['endpoint_id']}"

    for headers, status in ((viewer, 403), (person("ada"), 401), ({}, 401)):
        answers = [
            await edge.http.post(PATH, json={"url": f"{URL}2"}, headers=headers),
            await edge.http.get(PATH, headers=headers),
            await edge.http.delete(one, headers=headers),
            await edge.http.post(f"{one}/rotate", headers=headers),
        ]
        assert {answer.status_code for answer in answers} == {status}
    assert await stored_secret(edge, made["endpoint_id"]) == made["secret"]
