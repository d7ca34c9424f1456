from collections.abc import AsyncIterator

import pytest

from tests.providers.sandboxes import Caller, Reply, calling
from tocsin.sandbox import Outage, Quota, Refuse, Sandbox

HEADERS = {"webhook-id": "d1", "webhook-timestamp": "1772366400", "webhook-signature": "v1,c2ln"}
JSON = {"content-type": "application/json", "user-agent": "a test"}


@pytest.fixture(scope="module")
async def running() -> AsyncIterator[Sandbox]:
    async with Sandbox() as opened:
        yield opened


@pytest.fixture
def sandbox(running: Sandbox) -> Sandbox:
    running.reset()
    return running


@pytest.fixture
async def caller(sandbox: Sandbox) -> AsyncIterator[Caller]:
    async with calling(sandbox, authorized=False) as ready:
        yield ready


async def post(
    caller: Caller, name: str = "shop", body: bytes = b'{"type": "a"}', without: str | None = None
) -> Reply:
    given = {key: value for key, value in HEADERS.items() if key != without}
    return await caller.call("POST", f"/webhook/{name}", body, given | JSON)


async def test_what_comes_is_kept_as_it_came(sandbox: Sandbox, caller: Caller) -> None:
    reply = await post(caller, body='{"type":  "größer"}'.encode())

    assert (reply.status, reply.body) == (204, b"")
    (arrived,) = sandbox.phones.messages(after=0, limit=10)
    assert (arrived.provider, arrived.target, arrived.delivery_id) == ("webhook", "shop", "d1")
    assert arrived.message == {
        "headers": HEADERS | JSON,
        "body": '{"type":  "größer"}',
        "event": {"type": "größer"},
    }


@pytest.mark.parametrize("missing", sorted(HEADERS))
async def test_what_lacks_a_header_is_refused(sandbox: Sandbox, caller: Caller, missing: str) -> None:
    reply = await post(caller, without=missing)

    assert (reply.status, reply.body) == (400, f"{missing} is missing".encode())
    assert sandbox.phones.count == 0


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"\xff", b'{"a":' * 2_000 + b"1" + b"}" * 2_000])
async def test_what_is_no_json_object_is_refused(caller: Caller, body: bytes) -> None:
    assert (await post(caller, body=body)).status == 400


@pytest.mark.parametrize(("code", "status"), [("HTTP_500", 500), ("HTTP_410", 410), ("HTTP_404", 404)])
async def test_an_answer_can_be_scripted(sandbox: Sandbox, caller: Caller, code: str, status: int) -> None:
    sandbox.faults_of("webhook").script("shop", Refuse(code, retry_after=3))

    refused, taken = await post(caller), await post(caller)

    assert (refused.status, refused.headers["retry-after"], taken.status) == (status, "3", 204)
    assert sandbox.stats("webhook").answers == {code: 1, "OK": 1}


async def test_a_redirect_leads_to_another_endpoint(sandbox: Sandbox, caller: Caller) -> None:
    sandbox.faults_of("webhook").script("shop", Refuse("HTTP_308"))

    reply = await post(caller)

    assert reply.status == 204
    (arrived,) = sandbox.phones.messages(after=0, limit=10)
    assert arrived.target == "shop/elsewhere"


async def test_an_endpoint_can_be_gone_busy_or_down(sandbox: Sandbox, caller: Caller) -> None:
    sandbox.phones.unregister("left")
    sandbox.faults_of("webhook").device_quota(Quota(1, retry_after=9))
    answers = [(await post(caller, name)).status for name in ("left", "shop", "shop")]
    sandbox.faults_of("webhook").outage(Outage(retry_after=5))
    down = await post(caller)

    assert answers == [410, 204, 429]
    assert (down.status, down.headers["retry-after"]) == (503, "5")


async def test_only_a_post_is_for_an_endpoint(sandbox: Sandbox, caller: Caller) -> None:
    assert (await caller.call("GET", "/webhook/shop")).status == 404
    assert sandbox.stats("webhook").requests == 0
