from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.providers.sandboxes import Caller, calling
from tocsin.sandbox import Sandbox, SandboxSettings


@pytest.fixture(scope="module")
async def running() -> AsyncIterator[Sandbox]:
    async with Sandbox(SandboxSettings(messages_per_phone=3, messages_kept=5, phones_kept=4)) as sandbox:
        yield sandbox


@pytest.fixture
def sandbox(running: Sandbox) -> Sandbox:
    running.reset()
    return running


@pytest.fixture
async def caller(sandbox: Sandbox) -> AsyncIterator[Caller]:
    async with calling(sandbox) as ready:
        yield ready


async def _send(caller: Caller, *tokens: str, **data: str) -> list[int]:
    return [(await caller.send({"token": token, "data": data})).status for token in tokens]


async def test_phones_are_listed_by_pages(caller: Caller) -> None:
    await _send(caller, "a", "b", "c", "b")

    first = (await caller.json("GET", "/_sandbox/phones?limit=2")).body
    rest = (await caller.json("GET", "/_sandbox/phones?offset=2")).body

    assert first["phones"] == [
        {"token": "a", "live": True, "received": 1},
        {"token": "b", "live": True, "received": 2},
    ]
    assert [phone["token"] for phone in rest["phones"]] == ["c"]
    assert first["total"] == rest["total"] == 3


async def test_a_phone_shows_what_it_received(caller: Caller) -> None:
    await _send(caller, "a:b/c", delivery_id="d1")

    phone = (await caller.json("GET", "/_sandbox/phones/a:b%2Fc")).body

    [message] = phone["messages"]
    assert (message["number"], message["delivery_id"], message["provider"]) == (1, "d1", "fcm")
    assert message["message"] == {"token": "a:b/c", "data": {"delivery_id": "d1"}}
    assert message["at"].endswith("Z")


async def test_a_phone_can_be_registered_and_unregistered(caller: Caller) -> None:
    assert (await caller.json("PUT", "/_sandbox/phones/a")).body == {
        "token": "a",
        "live": True,
        "received": 0,
    }
    assert (await caller.json("DELETE", "/_sandbox/phones/a")).status == 204
    assert await _send(caller, "a") == [404]
    assert (await caller.json("GET", "/_sandbox/phones/a")).body["live"] is False
    assert (await caller.json("PUT", "/_sandbox/phones/a")).body["live"] is True
    assert await _send(caller, "a") == [200]


async def test_messages_are_read_onwards_from_a_number(caller: Caller) -> None:
    await _send(caller, "a", "b", "c", "d")

    first = (await caller.json("GET", "/_sandbox/messages?limit=3")).body
    second = (await caller.json("GET", f"/_sandbox/messages?after={first['next_after']}")).body
    third = (await caller.json("GET", f"/_sandbox/messages?after={second['next_after']}")).body

    assert [message["target"] for message in first["messages"]] == ["a", "b", "c"]
    assert [message["target"] for message in second["messages"]] == ["d"]
    assert third == {"messages": [], "total": 4, "next_after": 4}


async def test_memory_is_bounded_while_counts_go_on(sandbox: Sandbox, caller: Caller) -> None:
    await _send(caller, *"aaaaa", *"bcde")

    kept = [received.number for received in sandbox.phones.messages(after=0, limit=100)]
    assert kept == [5, 6, 7, 8, 9]
    assert [received.number for received in sandbox.phones.messages(after=7, limit=100)] == [8, 9]
    assert sandbox.phones.find("a") is None
    assert [phone.token for phone in sandbox.phones.page(offset=0, limit=9)] == ["b", "c", "d", "e"]
    await _send(caller, *"eeee")
    phone = sandbox.phones.find("e")
    assert phone is not None
    assert (phone.received, len(phone.messages)) == (5, 3)
    assert sandbox.stats().delivered == 13


async def test_an_unregistered_token_is_not_forgotten(sandbox: Sandbox, caller: Caller) -> None:
    sandbox.phones.unregister("a")
    await _send(caller, *"bcdefgh")

    assert await _send(caller, "a") == [404]


async def test_counts_alone_still_know_duplicates() -> None:
    async with Sandbox(SandboxSettings(record="counts")) as sandbox, calling(sandbox) as caller:
        for delivery_id in ("d1", "d2", "d1", "d1"):
            await _send(caller, "a", delivery_id=delivery_id)
        await _send(caller, "a")

        stats = (await caller.json("GET", "/_sandbox/stats")).body
        phone = sandbox.phones.find("a")
    assert (stats["distinct_deliveries"], stats["duplicates"], stats["without_delivery_id"]) == (2, 2, 1)
    assert list(sandbox.phones.messages(after=0, limit=10)) == []
    assert phone is not None
    assert (phone.received, list(phone.messages)) == (5, [])


async def test_stats_count_by_answer_and_second(sandbox: Sandbox, caller: Caller) -> None:
    sandbox.phones.unregister("gone")
    await _send(caller, "a", "gone", "b")
    await caller.send({"token": "a"}, validate_only=True)

    stats = (await caller.json("GET", "/_sandbox/stats")).body

    assert stats["answers"] == {"OK": 2, "UNREGISTERED": 1, "VALIDATED": 1}
    assert (stats["requests"], stats["delivered"], stats["in_flight"]) == (4, 2, 0)
    assert stats["protocols"] == {"1.1": 4}
    assert sum(second["count"] for second in stats["per_second"]) == 4


async def test_faults_are_put_up_shown_and_taken_down(caller: Caller) -> None:
    unavailable = {"kind": "refuse", "code": "UNAVAILABLE", "retry_after": 2}
    script = {"steps": [unavailable, {"kind": "hang", "delivered": True}], "repeat": True}
    put: dict[str, Any] = {
        "targets/a:b": script,
        "chances": [{"probability": 0.0, "fault": {"kind": "cut", "delivered": False}}],
        "latency": {"min_seconds": 0.0, "max_seconds": 0.001},
        "project_quota": {"limit": 1_000, "per_seconds": 1.0, "retry_after": None},
        "device_quota": {"limit": 100, "per_seconds": 60.0, "retry_after": 5},
        "outage": {"seconds": None, "retry_after": 1, "covers": "tokens"},
    }
    for name, content in put.items():
        assert (await caller.json("PUT", f"/_sandbox/faults/{name}", content)).status == 200

    picture = (await caller.json("GET", "/_sandbox/faults")).body
    assert picture == {"scripts": {"a:b": script}} | {k: v for k, v in put.items() if k != "targets/a:b"}
    refused = await caller.send({"token": "a:b"})
    assert (refused.status, refused.headers["retry-after"]) == (503, "2")

    for name in put:
        assert (await caller.json("DELETE", f"/_sandbox/faults/{name}")).status == 200
    assert (await caller.json("GET", "/_sandbox/faults")).body == {
        "scripts": {},
        "chances": [],
        "latency": None,
        "project_quota": None,
        "device_quota": None,
        "outage": None,
    }


async def test_all_faults_are_taken_down_at_once(caller: Caller) -> None:
    await caller.json("PUT", "/_sandbox/faults/outage", {})
    assert await _send(caller, "a") == [503]

    assert (await caller.json("DELETE", "/_sandbox/faults")).body["outage"] is None
    assert await _send(caller, "a") == [200]


@pytest.mark.parametrize(
    ("name", "content", "text"),
    [
        ("targets/a", {"steps": [{"kind": "refuse", "code": "NO"}]}, "code 'NO' is not known"),
        ("targets/a", {"steps": [{"kind": "explode"}]}, "explode"),
        ("targets/a", {"steps": []}, "$.steps"),
        ("targets/a", {"steps": [{"kind": "pass"}], "loop": True}, "loop"),
        ("chances", [{"probability": 2, "fault": {"kind": "pass"}}], "probability"),
        ("latency", {"min_seconds": -1}, "min_seconds"),
        ("project_quota", {"limit": 1, "per_seconds": 0}, "per_seconds"),
        ("outage", {"covers": "all"}, "covers"),
    ],
)
async def test_a_fault_that_makes_no_sense_is_named(
    caller: Caller, name: str, content: Any, text: str
) -> None:
    reply = await caller.json("PUT", f"/_sandbox/faults/{name}", content)

    assert (reply.status, reply.body["code"]) == (422, "invalid_body")
    assert reply.headers["content-type"] == "application/problem+json"
    assert text in reply.body["detail"]


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/_sandbox/nothing", 404),
        ("GET", "/_sandbox/phones/unknown", 404),
        ("PATCH", "/_sandbox/phones/unknown", 404),
        ("PUT", "/_sandbox/faults/nothing", 404),
        ("DELETE", "/_sandbox/faults/targets", 404),
        ("POST", "/_sandbox/faults", 404),
        ("GET", "/_sandbox/messages?limit=0", 400),
        ("GET", "/_sandbox/messages?limit=1001", 400),
        ("GET", "/_sandbox/phones?offset=-1", 400),
        ("GET", "/_sandbox/service_accounts/NOT%20AN%20ID", 400),
    ],
)
async def test_a_wrong_call_is_a_problem(caller: Caller, method: str, path: str, status: int) -> None:
    reply = await caller.json(method, path)

    assert (reply.status, reply.body["status"]) == (status, status)
    assert reply.headers["content-type"] == "application/problem+json"
    assert reply.body["detail"]


async def test_reset_forgets_everything_but_access_tokens(caller: Caller) -> None:
    await _send(caller, "a")
    await caller.json("DELETE", "/_sandbox/phones/a")
    await caller.json("PUT", "/_sandbox/faults/outage", {})

    assert (await caller.json("POST", "/_sandbox/reset")).status == 204

    assert (await caller.json("GET", "/_sandbox/phones")).body["total"] == 0
    assert (await caller.json("GET", "/_sandbox/stats")).body["requests"] == 0
    assert await _send(caller, "a") == [200]


async def test_access_tokens_can_be_revoked(caller: Caller) -> None:
    assert (await caller.json("DELETE", "/_sandbox/access_tokens")).status == 204

    assert await _send(caller, "a") == [401]


async def test_the_certificate_authority_can_be_fetched(sandbox: Sandbox, caller: Caller) -> None:
    reply = await caller.call("GET", "/_sandbox/ca.pem")

    assert reply.body == sandbox.ca_file.read_bytes()
    assert b"PRIVATE" not in reply.body


async def test_a_service_account_can_be_fetched(sandbox: Sandbox, caller: Caller) -> None:
    account = (await caller.json("GET", "/_sandbox/service_accounts/shop")).body

    assert (account["type"], account["project_id"]) == ("service_account", "shop")
    assert account["token_uri"] == f"{sandbox.http_url}/token"


async def test_the_same_service_account_over_tls_gets_its_tokens_over_tls(sandbox: Sandbox) -> None:
    async with calling(sandbox, secure=True) as caller:
        account = (await caller.json("GET", "/_sandbox/service_accounts/shop")).body

    assert account["token_uri"] == f"{sandbox.https_url}/token"
