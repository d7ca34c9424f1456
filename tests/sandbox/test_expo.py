import zlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pyreqwest.exceptions import PyreqwestError

from tests.providers.expo.rig import stand_in, token
from tests.providers.sandboxes import Caller, Reply, calling
from tocsin.sandbox import Chance, Cut, Hang, Outage, Pass, Quota, Refuse, Sandbox, SandboxSettings
from tocsin.sandbox.counters import Counters
from tocsin.sandbox.expo.errors import MESSAGE_ERRORS, REQUEST_ERRORS
from tocsin.sandbox.expo.service import RECEIPTS_PATH, SEND_PATH, Expo, receipt_of
from tocsin.sandbox.expo.tickets import Tickets


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sandbox")


@pytest.fixture(scope="module")
async def running(folder: Path) -> AsyncIterator[Sandbox]:
    async with Sandbox(SandboxSettings(folder=folder)) as sandbox:
        yield sandbox


@pytest.fixture
def sandbox(running: Sandbox) -> Sandbox:
    running.reset()
    return running


@pytest.fixture
def expo(sandbox: Sandbox) -> Expo:
    return stand_in(sandbox)


@pytest.fixture
async def caller(sandbox: Sandbox) -> AsyncIterator[Caller]:
    async with calling(sandbox, authorized=False) as ready:
        yield ready


async def send(caller: Caller, content: Any) -> Reply:
    return await caller.json("POST", SEND_PATH, content)


async def ask(caller: Caller, *ids: str) -> Reply:
    return await caller.json("POST", RECEIPTS_PATH, {"ids": ids})


def pushes(*names: str) -> list[dict[str, Any]]:
    return [{"to": token(name), "body": f"for {name}"} for name in names]


def refused_as(reply: Reply) -> tuple[int, str]:
    (error,) = reply.body["errors"]
    return reply.status, error["code"]


async def test_a_list_is_answered_by_tickets_in_its_order(sandbox: Sandbox, caller: Caller) -> None:
    sandbox.phones.unregister(token("b"))

    reply = await send(caller, pushes("a", "b", "c"))

    assert reply.status == 200
    first, second, third = reply.body["data"]
    assert second == {
        "status": "error",
        "message": f'"{token("b")}" is not a registered push notification recipient',
        "details": {"error": "DeviceNotRegistered", "expoPushToken": token("b")},
    }
    received = list(sandbox.phones.messages(after=0, limit=10))
    assert [(one.provider, one.target, one.message["body"]) for one in received] == [
        ("expo", token("a"), "for a"),
        ("expo", token("c"), "for c"),
    ]
    assert [one.message_id for one in received] == [first["id"], third["id"]]


async def test_one_message_by_itself_is_answered_by_one_ticket(caller: Caller) -> None:
    reply = await send(caller, {"to": token("a")})

    assert reply.body["data"]["status"] == "ok"


async def test_several_recipients_of_one_message_get_a_ticket_each(sandbox: Sandbox, caller: Caller) -> None:
    reply = await send(caller, {"to": [token("a"), token("b")], "data": {"delivery_id": "d1"}})

    assert [ticket["status"] for ticket in reply.body["data"]] == ["ok", "ok"]
    assert [received.delivery_id for received in sandbox.phones.messages(after=0, limit=10)] == ["d1", "d1"]


@pytest.mark.parametrize(
    "accepted", ["ExponentPushToken[x]", "ExpoPushToken[x-_Y]", "a" * 8 + "-0000" * 3 + "-" + "b" * 12]
)
async def test_every_shape_of_token_is_known(caller: Caller, accepted: str) -> None:
    assert (await send(caller, {"to": accepted})).body["data"]["status"] == "ok"


@pytest.mark.parametrize("strange", ["", "phone", "ExponentPushToken[]", "ExponentPushToken[x", "fcm:abc"])
async def test_what_is_no_token_is_no_recipient(sandbox: Sandbox, caller: Caller, strange: str) -> None:
    reply = await send(caller, [{"to": strange}])

    assert reply.body["data"][0]["details"]["error"] == "DeviceNotRegistered"
    assert sandbox.phones.count == 0


async def test_a_compressed_body_is_read(sandbox: Sandbox, caller: Caller) -> None:
    body = zlib.compress(msgspec.json.encode(pushes("a", "b")), wbits=31)

    reply = await caller.call("POST", SEND_PATH, body, {"content-encoding": "gzip"})

    assert (reply.status, sandbox.phones.count) == (200, 2)


@pytest.mark.parametrize(
    ("body", "encoding"),
    [
        (b"", None),
        (b"{", None),
        (b'"text"', None),
        (b"[7]", None),
        (b"{}", None),
        (b'[{"to": 7}]', None),
        (b'[{"to": "x", "priority": "urgent"}]', None),
        (b'[{"to": "x", "ttl": -1}]', None),
        (b'[{"to": "x", "data": "text"}]', None),
        (b'[{"to": "x", "collapseId": "' + b"y" * 65 + b'"}]', None),
        (b"[]", "gzip"),
    ],
)
async def test_a_request_that_cannot_be_read_is_refused_as_a_whole(
    sandbox: Sandbox, caller: Caller, body: bytes, encoding: str | None
) -> None:
    headers = {"content-encoding": encoding} if encoding else {}

    assert refused_as(await caller.call("POST", SEND_PATH, body, headers)) == (400, "VALIDATION_ERROR")
    assert sandbox.stats("expo").answers == {"VALIDATION_ERROR": 1}


async def test_a_hundred_messages_are_taken_and_no_more(sandbox: Sandbox, caller: Caller) -> None:
    names = [f"phone{number}" for number in range(101)]

    assert len((await send(caller, pushes(*names[:100]))).body["data"]) == 100
    assert refused_as(await send(caller, pushes(*names))) == (400, "PUSH_TOO_MANY_NOTIFICATIONS")
    one = {"to": [token(name) for name in names]}
    assert refused_as(await send(caller, one)) == (400, "PUSH_TOO_MANY_NOTIFICATIONS")
    assert sandbox.phones.count == 100


async def test_a_thousand_receipts_are_given_and_no_more(caller: Caller) -> None:
    ids = [str(number) for number in range(1_001)]

    assert (await ask(caller, *ids[:1_000])).body == {"data": {}}
    assert refused_as(await ask(caller, *ids)) == (400, "PUSH_TOO_MANY_RECEIPTS")


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"ids": "x"}', b'{"ids": [7]}'])
async def test_a_question_for_receipts_has_to_name_ids(caller: Caller, body: bytes) -> None:
    assert refused_as(await caller.call("POST", RECEIPTS_PATH, body)) == (400, "VALIDATION_ERROR")


async def test_several_projects_in_one_request_are_refused_and_named(
    sandbox: Sandbox, expo: Expo, caller: Caller
) -> None:
    expo.projects[token("b")] = "@other/app"

    mixed = await send(caller, pushes("a", "b", "c"))

    assert refused_as(mixed) == (400, "PUSH_TOO_MANY_EXPERIENCE_IDS")
    assert mixed.body["errors"][0]["details"] == {
        "@sandbox/app": [token("a"), token("c")],
        "@other/app": [token("b")],
    }
    assert sandbox.phones.count == 0
    assert (await send(caller, pushes("b"))).status == 200


async def test_an_access_token_is_asked_for_where_one_is_set(expo: Expo, caller: Caller) -> None:
    expo.access_token = "secret"
    body = msgspec.json.encode(pushes("a"))

    refused = [
        await send(caller, pushes("a")),
        await ask(caller, "x"),
        await caller.call("POST", SEND_PATH, body, {"authorization": "Bearer other"}),
    ]
    taken = await caller.call("POST", SEND_PATH, body, {"authorization": "Bearer secret"})

    assert [refused_as(reply) for reply in refused] == [(401, "UNAUTHORIZED")] * 3
    assert taken.status == 200


@pytest.mark.parametrize("code", sorted(MESSAGE_ERRORS))
async def test_an_error_of_a_message_is_in_its_ticket_or_its_receipt(
    expo: Expo, caller: Caller, code: str
) -> None:
    expo.faults.script(token("a"), Refuse(code))
    expo.faults.script(receipt_of(token("b")), Refuse(code))

    first, second = (await send(caller, pushes("a", "b"))).body["data"]
    receipts = [(await ask(caller, second["id"])).body["data"][second["id"]] for _ in range(2)]

    assert (first["status"], first["details"]["error"]) == ("error", code)
    assert receipts[0] == receipts[1]
    assert (receipts[0]["status"], receipts[0]["details"]["error"]) == ("error", code)


@pytest.mark.parametrize("code", sorted(REQUEST_ERRORS))
async def test_an_error_of_a_request_is_the_answer_to_all_of_it(
    sandbox: Sandbox, expo: Expo, caller: Caller, code: str
) -> None:
    ticket = (await send(caller, {"to": token("a")})).body["data"]["id"]
    expo.faults.script(token("b"), Refuse(code, retry_after=9))
    expo.faults.script(receipt_of(token("a")), Refuse(code, retry_after=9))

    replies = [await send(caller, pushes("a", "b")), await ask(caller, ticket)]

    status = REQUEST_ERRORS[code].status
    assert [(*refused_as(reply), reply.headers["retry-after"]) for reply in replies] == [
        (status, code, "9")
    ] * 2
    assert sandbox.phones.count == 1
    assert (await ask(caller, ticket)).body["data"] == {ticket: {"status": "ok"}}


@pytest.mark.parametrize("fault", [Hang(delivered=True), Cut(delivered=True), Cut()])
async def test_a_broken_answer_breaks_for_all_of_the_request(
    sandbox: Sandbox, expo: Expo, fault: Hang | Cut
) -> None:
    expo.faults.script(token("b"), fault)

    async with calling(sandbox, timeout_seconds=0.3, authorized=False) as caller:
        with pytest.raises((PyreqwestError, TimeoutError)):
            await send(caller, pushes("a", "b"))

    assert sandbox.phones.count == (2 if fault.delivered else 0)


async def test_an_outage_refuses_everything(expo: Expo, caller: Caller) -> None:
    expo.faults.outage(Outage(retry_after=3))

    replies = [await send(caller, pushes("a")), await ask(caller, "x")]

    assert [(reply.status, reply.headers["retry-after"]) for reply in replies] == [(503, "3")] * 2


async def test_a_receipt_takes_its_time(expo: Expo, caller: Caller) -> None:
    expo.tickets.receipts_after_seconds = 900.0
    ticket = (await send(caller, {"to": token("a")})).body["data"]["id"]

    assert (await ask(caller, ticket, "unknown")).body == {"data": {}}


async def test_the_delay_of_receipts_is_set_over_http_and_by_the_settings(sandbox: Sandbox) -> None:
    async with calling(sandbox) as caller:
        assert (await caller.json("PUT", "/_sandbox/receipts", {"after_seconds": 900})).status == 204
        late = (await send(caller, {"to": token("a")})).body["data"]["id"]
        assert (await caller.json("PUT", "/_sandbox/receipts", {"after_seconds": 0})).status == 204
        quick = (await send(caller, {"to": token("a")})).body["data"]["id"]
        assert list((await ask(caller, late, quick)).body["data"]) == [quick]
        assert (await caller.json("PUT", "/_sandbox/receipts", {"after_seconds": -1})).status == 422

    async with Sandbox(SandboxSettings(receipts_after_seconds=900)) as slow, calling(slow) as caller:
        slow.reset()
        late = (await send(caller, {"to": token("a")})).body["data"]["id"]
        assert (await ask(caller, late)).body == {"data": {}}


def test_a_receipt_is_there_when_its_time_has_come() -> None:
    now = 100.0
    tickets = Tickets(clock=lambda: now)
    tickets.receipts_after_seconds = 900.0
    ticket_id = tickets.issue("token", too_big=False)

    now = 999.0
    assert tickets.ready(ticket_id) is None
    now = 1_000.0
    assert tickets.ready(ticket_id) is not None


async def test_a_message_that_is_too_big_is_found_out_later(sandbox: Sandbox, caller: Caller) -> None:
    ticket = (await send(caller, {"to": token("a"), "data": {"k": "ü" * 2_048}})).body["data"]
    receipt = (await ask(caller, ticket["id"])).body["data"][ticket["id"]]

    assert (ticket["status"], receipt["details"]["error"]) == ("ok", "MessageTooBig")
    assert sandbox.phones.count == 0


async def test_a_quota_counts_messages_not_requests(sandbox: Sandbox, expo: Expo, caller: Caller) -> None:
    expo.faults.project_quota(Quota(5, retry_after=2))

    replies = [await send(caller, pushes("a", "b", "c")), await send(caller, pushes("d", "e", "f"))]

    assert [reply.status for reply in replies] == [200, 429]
    assert sandbox.phones.count == 3


async def test_the_quota_of_a_device_holds_for_that_device(expo: Expo, caller: Caller) -> None:
    expo.faults.device_quota(Quota(1))

    tickets = (await send(caller, pushes("a", "a", "b"))).body["data"]

    assert [ticket["status"] for ticket in tickets] == ["ok", "error", "ok"]
    assert tickets[1]["details"]["error"] == "MessageRateExceeded"


async def test_random_faults_befall_single_messages(expo: Expo, caller: Caller) -> None:
    expo.faults.chances(Chance(0.5, Refuse("ExpoError")), Chance(1.0, Pass()))

    tickets = (await send(caller, pushes(*(f"phone{number}" for number in range(100))))).body["data"]

    assert 20 < [ticket["status"] for ticket in tickets].count("error") < 80


async def test_the_log_counts_every_message_that_came_taken_or_not(
    sandbox: Sandbox, expo: Expo, caller: Caller
) -> None:
    expo.faults.script(token("x"), Refuse("TOO_MANY_REQUESTS"))

    counted = []
    for names in ("abc", "xy"):
        await send(caller, pushes(*names))
        counted.append(sum(second.count for second in sandbox.stats("expo").messages_per_second))
    await ask(caller, "unknown")

    stats = sandbox.stats("expo")
    assert counted == [3, 5]
    assert sum(second.count for second in stats.messages_per_second) == 5
    assert (stats.most_messages_in_a_second, stats.delivered) == (5, 3)
    assert sum(second.count for second in stats.per_second) == 3


def test_the_busiest_second_may_begin_anywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    counters = Counters()
    for now, count in [(10.0, 100), (10.9, 300), (11.2, 300), (11.95, 250), (13.0, 500)]:
        monkeypatch.setattr("time.time", lambda now=now: now)
        counters.count_messages(count)

    stats = counters.stats()

    assert [(second.second, second.count) for second in stats.messages_per_second] == [
        (10, 400),
        (11, 550),
        (13, 500),
    ]
    assert stats.most_messages_in_a_second == 600
