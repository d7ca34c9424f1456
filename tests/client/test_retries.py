"""Trying again, with a peer that cuts, hangs and complains between the client and a real server."""

import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.client.flaky import Act, Flaky, Hang, LoseAnswer, Reset, Say
from tocsin.client import (
    AsyncTocsin,
    Duplicate,
    Intent,
    QueueLimits,
    RateLimitedError,
    RefusedError,
    Tocsin,
    UnavailableError,
    UnreadableError,
)
from tocsin.client.testing import RunningTocsin

PAYLOAD = {"customer_name": "Ada"}

TROUBLE = [
    pytest.param(Reset(), id="cut before it was heard"),
    pytest.param(LoseAnswer(), id="cut after it was done"),
    pytest.param(Hang(), id="no answer in time"),
    pytest.param(Say(503), id="busy"),
    pytest.param(Say(502, b"<html>"), id="the proxy has lost its server"),
    pytest.param(Say(429, headers={"Retry-After": "0"}), id="too often"),
]


@pytest.mark.parametrize("trouble", TROUBLE)
def test_after_trouble_there_is_exactly_one_notification(
    tocsin_server: RunningTocsin, client: Tocsin, user_id: str, trouble: Act
) -> None:
    phone = tocsin_server.phone(user_id)
    with (
        Flaky.before(tocsin_server.base_url, trouble) as peer,
        Tocsin(peer.url, tocsin_server.api_key, timeout=1) as producer,
    ):
        sent = producer.send("new_customer", users=[user_id], payload=PAYLOAD)

    assert peer.keys == [sent.idempotency_key] * 2
    again = client.send(
        "new_customer", users=[user_id], payload=PAYLOAD, idempotency_key=sent.idempotency_key
    )
    assert again == Duplicate(notification_id=sent.notification_id, idempotency_key=sent.idempotency_key)
    assert len(phone.wait_for(1)) == 1


@pytest.mark.parametrize("trouble", TROUBLE)
async def test_the_async_client_retries_too(tocsin_server: RunningTocsin, user_id: str, trouble: Act) -> None:
    with Flaky.before(tocsin_server.base_url, trouble) as peer:
        async with AsyncTocsin(peer.url, tocsin_server.api_key, timeout=1) as producer:
            sent = await producer.send("new_customer", users=[user_id], payload=PAYLOAD)

    assert peer.keys == [sent.idempotency_key] * 2


def test_a_batch_whose_answer_was_lost_is_accepted_once(tocsin_server: RunningTocsin, user_id: str) -> None:
    intents = [Intent("new_customer", users=[user_id], payload=PAYLOAD) for _ in range(3)]
    with (
        Flaky.before(tocsin_server.base_url, LoseAnswer()) as peer,
        Tocsin(peer.url, tocsin_server.api_key) as producer,
    ):
        answers = producer.send_many(intents)

    assert [answer.status for answer in answers] == ["duplicate"] * 3
    assert peer.keys == [intent.key for intent in intents] * 2


def test_a_batch_too_large_for_the_server_is_halved(tocsin_server: RunningTocsin, user_id: str) -> None:
    too_large = Say(413, b'{"code":"body_too_large","detail":"too large"}')
    intents = [Intent("new_customer", users=[user_id], payload=PAYLOAD) for _ in range(4)]
    with (
        Flaky.before(tocsin_server.base_url, too_large, too_large) as peer,
        Tocsin(peer.url, tocsin_server.api_key) as producer,
    ):
        answers = producer.send_many(intents)

    first, second, third, fourth = [intent.key for intent in intents]
    assert [answer.idempotency_key for answer in answers] == [first, second, third, fourth]
    assert {answer.status for answer in answers} == {"accepted"}
    assert peer.keys == [first, second, third, fourth, first, second, first, second, third, fourth]


@pytest.mark.parametrize(
    ("said", "error"),
    [
        (Say(422, b'{"code":"invalid_intent","detail":"x"}'), RefusedError),
        (Say(400, b'{"code":"malformed_json","detail":"x"}'), RefusedError),
        (Say(413, b'{"code":"body_too_large","detail":"x"}'), RefusedError),
        (Say(404, b"<html>not here</html>"), UnreadableError),
        (Say(301, b"", {"Location": "https://elsewhere.example"}), UnreadableError),
        (Say(200, b"welcome"), UnreadableError),
        (Say(200, b'{"status":"accepted"}'), UnreadableError),
    ],
)
def test_what_trying_again_cannot_mend_is_tried_once(said: Say, error: type[Exception]) -> None:
    with Flaky.before("http://127.0.0.1:1", said) as peer, Tocsin(peer.url, "key") as producer:
        with pytest.raises(error):
            producer.send("new_customer", users=["42"])
        assert len(peer.keys) == 1


def test_retry_after_is_kept(tocsin_server: RunningTocsin, user_id: str) -> None:
    with (
        Flaky.before(tocsin_server.base_url, Say(503, headers={"Retry-After": "1"})) as peer,
        Tocsin(peer.url, tocsin_server.api_key) as producer,
    ):
        started = time.monotonic()
        producer.send("new_customer", users=[user_id], payload=PAYLOAD)

    assert time.monotonic() - started >= 1


def test_a_wait_beyond_the_deadline_is_not_waited_for() -> None:
    asked = Say(429, headers={"Retry-After": "3600"})
    with Flaky.before("http://127.0.0.1:1", asked) as peer, Tocsin(peer.url, "key") as producer:
        with pytest.raises(RateLimitedError) as limited:
            producer.send("new_customer", users=["42"])
        assert (limited.value.retry_after, len(peer.keys)) == (3600, 1)


@pytest.mark.parametrize("options", [{"retries": 2}, {"deadline": 0.5}, {"retries": 0}])
def test_it_gives_up_and_names_the_key_to_go_on_with(options: dict[str, Any]) -> None:
    busy = [Say(503)] * 50
    with Flaky.before("http://127.0.0.1:1", *busy) as peer, Tocsin(peer.url, "key", **options) as producer:
        started = time.monotonic()
        with pytest.raises(UnavailableError, match="answered 503") as gave_up:
            producer.send("new_customer", users=["42"], idempotency_key="mine")

    assert gave_up.value.idempotency_key == "mine"
    assert gave_up.value.attempts == len(peer.keys)
    assert len(peer.keys) <= options.get("retries", 5) + 1
    assert time.monotonic() - started < options.get("deadline", 30) + 5


def test_nobody_listening_is_said_in_plain_words(user_id: str) -> None:
    with (
        Tocsin("http://127.0.0.1:1", "very-secret-key", retries=1) as producer,
        pytest.raises(UnavailableError, match=r"no connection.*base_url") as lost,
    ):
        producer.send("new_customer", users=[user_id])

    assert "very-secret-key" not in repr(lost.value) + str(lost.value)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Tocsin("localhost:8470", "key"), "base_url"),
        (lambda: Tocsin("http://127.0.0.1:99999", "key"), "base_url"),
        (lambda: Tocsin("http://[::1", "key"), "base_url"),
        (lambda: Tocsin("http://a b", "key"), "base_url"),
        (lambda: Tocsin("http://user:pw@host", "key"), "bare address"),
        (lambda: Tocsin("http://127.0.0.1:8470", ""), "empty"),
        (lambda: Tocsin("http://127.0.0.1:8470", "key\n"), "line break"),
        (lambda: Tocsin("http://127.0.0.1:8470", "key", timeout=0), "timeout"),
        (lambda: Tocsin("http://127.0.0.1:8470", "key", retries=-1), "retries"),
        (
            lambda: Tocsin("http://127.0.0.1:8470", "key", queue_limits=QueueLimits(bound=0)),
            "room for at least 1",
        ),
    ],
)
def test_what_cannot_work_is_refused_at_once(make: Callable[[], Tocsin], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        make()
