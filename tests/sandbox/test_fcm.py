import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.providers.sandboxes import Caller, calling
from tocsin.sandbox import Sandbox, SandboxSettings
from tocsin.sandbox.fcm.schema import read_request, request_violations
from tocsin.sandbox.responses import RefusedRequestError


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
async def caller(sandbox: Sandbox) -> AsyncIterator[Caller]:
    async with calling(sandbox) as ready:
        yield ready


async def test_a_message_reaches_its_phone(sandbox: Sandbox, caller: Caller) -> None:
    message = {"token": "phone-1", "notification": {"title": "Hello"}, "data": {"delivery_id": "d1"}}

    reply = await caller.send(message)

    assert reply.status == 200
    assert reply.body["name"].startswith("projects/sandbox/messages/0:")
    phone = sandbox.phones.find("phone-1")
    assert phone is not None
    assert [received.message for received in phone.messages] == [message]
    assert phone.messages[0].delivery_id == "d1"
    assert reply.body["name"].endswith(phone.messages[0].message_id)


async def test_the_secure_listener_speaks_http_2(sandbox: Sandbox) -> None:
    async with calling(sandbox, secure=True) as caller:
        reply = await caller.send({"token": "phone-1"})

    assert (reply.status, reply.version) == (200, "HTTP/2.0")
    assert sandbox.stats().protocols == {"2": 1}


async def test_both_listeners_share_phones_and_access_tokens(sandbox: Sandbox, caller: Caller) -> None:
    async with calling(sandbox, secure=True, authorized=False) as secure:
        secure.access_token = caller.access_token
        assert (await secure.send({"token": "phone-1"})).status == 200
    assert (await caller.send({"token": "phone-1"})).version == "HTTP/1.1"

    phone = sandbox.phones.find("phone-1")
    assert phone is not None
    assert phone.received == 2


async def test_validate_only_checks_but_does_not_deliver(sandbox: Sandbox, caller: Caller) -> None:
    for spelling in (b"validate_only", b"validateOnly"):
        reply = await caller.send_raw(b'{"message": {"token": "phone-1"}, "%b": true}' % spelling)
        assert reply.body == {"name": "projects/sandbox/messages/fake_message_id"}
    assert sandbox.phones.count == 0

    sandbox.phones.unregister("phone-1")
    assert (await caller.send({"token": "phone-1"}, validate_only=True)).status == 404


@pytest.mark.parametrize("kind", ["token", "fid", "topic", "condition"])
async def test_every_kind_of_target_is_taken(sandbox: Sandbox, caller: Caller, kind: str) -> None:
    target = "'news' in topics || 'sport' in topics" if kind == "condition" else "news"

    assert (await caller.send({kind: target})).status == 200

    [received] = sandbox.phones.messages(after=0, limit=10)
    assert (received.target_kind, received.target) == (kind, target)


async def test_an_unregistered_phone_answers_404(sandbox: Sandbox, caller: Caller) -> None:
    sandbox.phones.unregister("gone")

    reply = await caller.send({"token": "gone"})

    assert (reply.status, reply.error["status"], reply.fcm_code) == (404, "NOT_FOUND", "UNREGISTERED")
    sandbox.phones.register("gone")
    assert (await caller.send({"token": "gone"})).status == 200


async def test_only_registered_phones_live_when_unknown_tokens_are_refused(folder: Path) -> None:
    async with (
        Sandbox(SandboxSettings(folder=folder, unknown_tokens="unregistered")) as sandbox,
        calling(sandbox) as caller,
    ):
        sandbox.phones.register("known")
        assert (await caller.send({"token": "known"})).status == 200
        assert (await caller.send({"token": "unknown"})).fcm_code == "UNREGISTERED"


async def test_a_missing_access_token_is_unauthenticated(caller: Caller) -> None:
    caller.access_token = ""

    reply = await caller.send({"token": "phone-1"})

    assert (reply.status, reply.error["status"]) == (401, "UNAUTHENTICATED")
    assert reply.detail("ErrorInfo")["reason"] == "CREDENTIALS_MISSING"


async def test_revoked_access_tokens_are_unauthenticated(sandbox: Sandbox, caller: Caller) -> None:
    sandbox.fcm.tokens.revoke_all()

    refused = await caller.send({"token": "phone-1"})
    await caller.authorize(sandbox.service_account(secure=False))
    taken = await caller.send({"token": "phone-1"})

    assert (refused.status, refused.error["status"], taken.status) == (401, "UNAUTHENTICATED", 200)


async def test_a_project_of_somebody_else_is_denied(caller: Caller) -> None:
    reply = await caller.send({"token": "phone-1"}, project="elsewhere")

    assert (reply.status, reply.error["status"]) == (403, "PERMISSION_DENIED")
    assert "projects/elsewhere" in reply.error["message"]


async def test_another_scope_is_not_enough(sandbox: Sandbox, caller: Caller) -> None:
    await caller.authorize(
        sandbox.service_account(secure=False), scope="https://www.googleapis.com/auth/userinfo.email"
    )

    reply = await caller.send({"token": "phone-1"})

    assert (reply.status, reply.detail("ErrorInfo")["reason"]) == (403, "ACCESS_TOKEN_SCOPE_INSUFFICIENT")


@pytest.mark.parametrize(
    ("message", "field", "text"),
    [
        (
            {"token": "t", "colour": "red"},
            "message",
            "Unknown name \"colour\" at 'message': Cannot find field.",
        ),
        ({"token": "t", "data": {"a": "x", "n": 12}}, "message.data[1].value", "(TYPE_STRING), 12"),
        ({"token": 5}, "message.token", "(TYPE_STRING), 5"),
        ({"token": "t", "notification": "hi"}, "message.notification", "Invalid value at"),
        ({"token": "t", "android": {"ttl": "60"}}, "message.android.ttl", "duration must end with 's'"),
        ({"token": "t", "android": {"priority": "URGENT"}}, "message.android.priority", '"URGENT"'),
        ({"token": "t", "android": {"directBootOk": "yes"}}, "message.android.directBootOk", "(TYPE_BOOL)"),
        (
            {"token": "t", "android": {"notification": {"notification_count": True}}},
            "message.android.notification.notification_count",
            "(TYPE_INT32), true",
        ),
        (
            {"token": "t", "android": {"notification": {"body_loc_args": ["a", 1]}}},
            "message.android.notification.body_loc_args[1]",
            "(TYPE_STRING), 1",
        ),
        ({"token": "t", "apns": {"payload": "aps"}}, "message.apns.payload", "google.protobuf.Struct"),
        (
            {"token": "t", "topic": "news"},
            "message",
            "oneof field 'target' is already set. Cannot set 'topic'",
        ),
    ],
)
async def test_the_gateway_names_the_field_that_does_not_fit(
    caller: Caller, message: dict[str, Any], field: str, text: str
) -> None:
    reply = await caller.send(message)

    assert (reply.status, reply.error["status"]) == (400, "INVALID_ARGUMENT")
    assert reply.violated_fields == [field]
    assert text in reply.error["message"]


@pytest.mark.parametrize(
    ("message", "fields", "text"),
    [
        ({}, ["message"], "Recipient of the message is not set."),
        ({"token": ""}, ["message.token"], "The registration token is not a valid FCM registration token"),
        ({"topic": "no/slash"}, ["message"], "Topic name contains invalid characters."),
        ({"token": "t", "data": {"from": "x"}}, ["message.data"], "Invalid data payload key: from"),
        ({"token": "t", "data": {"gcm.x": "x"}}, ["message.data"], "Invalid data payload key: gcm.x"),
        (
            {"token": "t", "data": {"a": "x", "google.": "x"}},
            ["message.data"],
            "Invalid data payload key: google.",
        ),
        ({"token": "t", "android": {"ttl": "2419201s"}}, ["message.android.ttl"], "Invalid TTL"),
        ({"token": "t", "android": {"ttl": "-1s"}}, ["message.android.ttl"], "Invalid TTL"),
        (
            {"token": "t", "webpush": {"headers": {"TTL": "soon"}}},
            ["message.webpush.headers.TTL"],
            "TTL must be a non-negative integer.",
        ),
    ],
)
async def test_fcm_refuses_what_it_cannot_send(
    caller: Caller, message: dict[str, Any], fields: list[str], text: str
) -> None:
    reply = await caller.send(message)

    assert (reply.status, reply.fcm_code) == (400, "INVALID_ARGUMENT")
    assert reply.violated_fields == fields
    assert text in reply.error["message"]


async def test_a_bad_condition_gets_the_bare_error(caller: Caller) -> None:
    reply = await caller.send({"condition": "news and sport"})

    assert (reply.status, "details" in reply.error) == (400, False)


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"not json", b"[1]", b'{"message": {"token": "t"}', b"\xff\xfe"),
        b'{"message":{"apns":{"payload":' + b'{"a":' * 2_000 + b"1" + b"}" * 2_003,
    ],
)
async def test_a_body_that_is_no_json_object_is_refused(caller: Caller, body: bytes) -> None:
    reply = await caller.send_raw(body)

    assert (reply.status, reply.error["status"]) == (400, "INVALID_ARGUMENT")
    assert "Invalid JSON payload received." in reply.error["message"]


@pytest.mark.parametrize("body", [b"{}", b'{"message": null}'])
async def test_a_request_without_message_is_refused(caller: Caller, body: bytes) -> None:
    assert (await caller.send_raw(body)).error["message"] == "The message is not set."


@pytest.mark.parametrize(
    ("target", "limit"), [({"token": "t"}, 4_096), ({"fid": "f"}, 4_096), ({"topic": "news"}, 2_048)]
)
async def test_the_payload_may_fill_its_limit_and_no_more(
    caller: Caller, target: dict[str, str], limit: int
) -> None:
    filling = {**target, "data": {"k": "x" * (limit - 1)}}
    bursting = {**target, "data": {"k": "x" * limit}}

    assert (await caller.send(filling)).status == 200
    refused = await caller.send(bursting)

    assert (refused.status, refused.fcm_code) == (400, "INVALID_ARGUMENT")
    assert f"({limit} bytes)" in refused.error["message"]
    assert "fieldViolations" not in refused.detail("BadRequest")


@pytest.mark.parametrize(
    "message",
    [
        {"token": "t", "notification": {"title": "ü" * 2_049}},
        {"token": "t", "apns": {"payload": {"aps": {"alert": "x" * 4_096}}}},
        {"token": "t", "data": {"k": "x" * 3_000}, "android": {"data": {"l": "x" * 1_100}}},
    ],
)
async def test_the_payload_is_measured_as_each_platform_gets_it(
    caller: Caller, message: dict[str, Any]
) -> None:
    assert "too large" in (await caller.send(message)).error["message"]


async def test_an_unknown_address_gets_the_web_page(caller: Caller) -> None:
    reply = await caller.call("POST", "/v1/projects/sandbox/messages:burn")

    assert (reply.status, reply.headers["content-type"]) == (404, "text/html; charset=UTF-8")


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
_fields = ["token", "data", "notification", "android", "apns", "ttl", "title", "body_loc_args", "x"]
_nested = st.recursive(
    _json,
    lambda inner: st.dictionaries(st.sampled_from(_fields), inner, max_size=3),
    max_leaves=12,
)


def _value_at(request: Any, path: str) -> Any:
    """Follow a violation's path into the request that it is about."""
    value = request
    for name, index in re.findall(r"([^.\[\]]+)|\[(\d+)\](?:\.value)?", path):
        if name:
            value = value[name]
        else:
            value = list(value.values() if isinstance(value, dict) else value)[int(index)]
    return value


def test_both_spellings_of_a_field_are_the_same_request() -> None:
    usual = {
        "message": {
            "token": "t",
            "android": {
                "collapse_key": "k",
                "ttl": "5s",
                "notification": {"channel_id": "c", "light_settings": {"light_on_duration": "1s"}},
                "data": {"snakeCase": "stays"},
            },
            "fcm_options": {"analytics_label": "a"},
        },
        "validate_only": True,
    }
    other = {
        "message": {
            "token": "t",
            "android": {
                "collapseKey": "k",
                "ttl": "5s",
                "notification": {"channelId": "c", "lightSettings": {"lightOnDuration": "1s"}},
                "data": {"snakeCase": "stays"},
            },
            "fcmOptions": {"analyticsLabel": "a"},
            "webpush": None,
        },
        "validateOnly": True,
    }

    read = read_request(msgspec.json.encode(usual))

    assert read == read_request(msgspec.json.encode(other))
    assert msgspec.to_builtins(read) == usual


@given(st.dictionaries(st.sampled_from(["message", "validate_only", "x"]), _nested))
def test_a_request_is_read_unless_something_in_it_violates_the_schema(request: dict[str, Any]) -> None:
    body = msgspec.json.encode(request)
    if request_violations(request):
        with pytest.raises(RefusedRequestError):
            read_request(body)
    else:
        assert read_request(body).validate_only == request.get("validate_only")


@given(st.dictionaries(st.sampled_from(["message", "validate_only", "x"]), _nested))
def test_every_violation_names_a_place_in_the_request(request: dict[str, Any]) -> None:
    for violation in request_violations(request):
        found = _value_at(request, violation.field)
        unknown = re.search(r'Unknown name "(.*)"', violation.description, re.DOTALL)
        if unknown:
            assert unknown[1] in found
        elif "(oneof)" not in violation.description and "duration" not in violation.description:
            assert violation.description.endswith(f", {msgspec.json.encode(found).decode()}")
        else:
            assert f"'{violation.field}'" in violation.description
