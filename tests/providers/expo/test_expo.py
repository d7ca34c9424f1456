import logging
import zlib
from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.providers.conformance import (
    NOW,
    CannedAnswer,
    Http2Conformance,
    ProviderConformance,
    a_message,
    send_one,
)
from tests.providers.expo.rig import ExpoRig, messages, receipts_of, sent_ids, token
from tests.providers.http.http2_peer import Http2Peer
from tocsin.domain.delivery.message import GivesReceipts
from tocsin.domain.delivery.outcome import Defer, Delivered, Gone, NotYet, Outcome, Rejected, Retry, Sent
from tocsin.domain.errors import ProviderSetupError
from tocsin.providers.answers import ALARM_REST
from tocsin.providers.expo.answers import RATE_REST
from tocsin.providers.expo.provider import ExpoProvider
from tocsin.providers.expo.settings import ExpoSettings
from tocsin.sandbox import Cut, Hang, Outage, Quota, Refuse, Sandbox, SandboxSettings
from tocsin.sandbox.expo.service import receipt_of


@pytest.fixture(scope="module")
async def running(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Sandbox]:
    async with Sandbox(SandboxSettings(folder=tmp_path_factory.mktemp("sandbox"))) as sandbox:
        yield sandbox


@pytest.fixture
async def rig(running: Sandbox) -> AsyncIterator[ExpoRig]:
    running.reset()
    made = ExpoRig(running)
    yield made
    await made.aclose()


class TestConformance(ProviderConformance, Http2Conformance):
    pass


async def test_a_batch_is_one_request_and_each_message_has_its_own_outcome(rig: ExpoRig) -> None:
    names = [f"phone{number}" for number in range(100)]
    rig.script("phone7", Refuse("DeviceNotRegistered"))
    rig.script("phone30", Refuse("MessageRateExceeded"))
    rig.script("phone99", Refuse("DeveloperError"))
    batch = messages(*names)
    batch[50] = a_message(token("phone50"), body="x" * 5_000)

    outcomes = await rig.provider().send(batch, now=NOW)

    kinds = {place: type(outcome) for place, outcome in enumerate(outcomes) if not isinstance(outcome, Sent)}
    assert kinds == {7: Gone, 30: Retry, 50: Rejected, 99: Rejected}
    assert (rig.stats.requests, rig.stats.delivered) == (1, 96)
    by_token = {received.target: received.message_id for received in rig.arrivals}
    for name, outcome in zip(names, outcomes, strict=True):
        if isinstance(outcome, Sent):
            assert outcome.message_id == by_token[token(name)]


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("DeviceNotRegistered", Gone("DeviceNotRegistered")),
        ("MessageTooBig", Rejected("MessageTooBig")),
        ("DeveloperError", Rejected("DeveloperError")),
        ("MessageRateExceeded", Retry("MessageRateExceeded", speaks_against="target")),
        ("MismatchSenderId", Defer("MismatchSenderId", ALARM_REST, pauses=False, alarm=True)),
        ("InvalidCredentials", Defer("InvalidCredentials", ALARM_REST, pauses=False, alarm=True)),
        ("ExpoError", Retry("ExpoError")),
        ("ProviderError", Retry("ProviderError")),
    ],
)
async def test_each_error_of_a_message_is_understood_in_ticket_and_receipt(
    rig: ExpoRig, code: str, expected: Retry | Defer | Rejected | Gone
) -> None:
    provider = rig.expo_provider()
    rig.script("first", Refuse(code))
    rig.faults.script(receipt_of(token("second")), Refuse(code))

    first, second = await provider.send(messages("first", "second"), now=NOW)
    assert isinstance(second, Sent)
    assert second.message_id
    (receipt,) = await receipts_of(provider, [second.message_id])

    for outcome in (first, receipt):
        assert isinstance(outcome, Retry | Defer | Rejected | Gone)
        assert "[token]" in outcome.detail
        assert msgspec.structs.replace(outcome, detail="") == expected


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("UNAUTHORIZED", Defer("UNAUTHORIZED", ALARM_REST, alarm=True)),
        ("FORBIDDEN", Defer("FORBIDDEN", ALARM_REST, alarm=True)),
        ("NOT_FOUND", Defer("NOT_FOUND", ALARM_REST, alarm=True)),
        ("TOO_MANY_REQUESTS", Defer("TOO_MANY_REQUESTS", RATE_REST)),
        ("INTERNAL_SERVER_ERROR", Retry("INTERNAL_SERVER_ERROR")),
        ("SERVICE_UNAVAILABLE", Retry("SERVICE_UNAVAILABLE")),
    ],
)
async def test_each_refusal_of_a_request_holds_for_every_message_and_for_receipts(
    rig: ExpoRig, code: str, expected: Retry | Defer
) -> None:
    provider = rig.expo_provider()
    ids = await sent_ids(provider, "receipt")
    rig.script("second", Refuse(code))
    rig.faults.script(receipt_of(token("receipt")), Refuse(code))

    outcomes = await provider.send(messages("first", "second", "third"), now=NOW)
    whole = await provider.receipts(ids, now=NOW)

    assert isinstance(whole, Retry | Defer)
    assert len(outcomes) == 3
    for outcome in (*outcomes, whole):
        assert isinstance(outcome, Retry | Defer)
        assert msgspec.structs.replace(outcome, detail="") == expected
    assert rig.stats.delivered == 1
    assert await receipts_of(provider, ids) == [Delivered()]


@pytest.mark.parametrize("asked", [1, 40])
async def test_a_used_up_rate_rests_as_long_as_expo_asks(rig: ExpoRig, asked: int) -> None:
    rig.faults.project_quota(Quota(150, per_seconds=60, retry_after=asked))
    provider = rig.provider()
    await provider.send(messages(*(f"phone{number}" for number in range(100))), now=NOW)

    outcomes = await provider.send(messages(*(f"phone{number}" for number in range(100))), now=NOW)

    assert {type(outcome) for outcome in outcomes} == {Defer}
    assert isinstance(outcomes[0], Defer)
    assert (outcomes[0].after, outcomes[0].pauses, outcomes[0].alarm) == (
        timedelta(seconds=asked),
        True,
        False,
    )


async def test_a_batch_of_several_projects_is_split_by_project(rig: ExpoRig) -> None:
    for name in ("b", "e"):
        rig.expo.projects[token(name)] = "@other/app"
    rig.expo.projects[token("f")] = "@third/app"
    rig.script("d", Refuse("DeviceNotRegistered"))
    names = ["a", "b", "c", "d", "e", "f"]

    outcomes = await rig.provider().send(messages(*names), now=NOW)

    assert [type(outcome) for outcome in outcomes] == [Sent, Sent, Sent, Gone, Sent, Sent]
    assert rig.stats.answers == {"PUSH_TOO_MANY_EXPERIENCE_IDS": 1, "OK": 3}
    arrived = {received.target: received.message_id for received in rig.arrivals}
    for name, outcome in zip(names, outcomes, strict=True):
        assert isinstance(outcome, Gone) or outcome == Sent(arrived[token(name)])


async def test_more_than_expo_takes_is_split_in_halves(rig: ExpoRig) -> None:
    names = [f"phone{number}" for number in range(250)]

    outcomes = await rig.provider().send(messages(*names), now=NOW)

    assert all(isinstance(outcome, Sent) for outcome in outcomes)
    assert [received.target for received in rig.arrivals] == [token(name) for name in names]
    assert rig.stats.answers == {"PUSH_TOO_MANY_NOTIFICATIONS": 3, "OK": 4}


async def test_one_message_that_expo_cannot_read_costs_no_other(rig: ExpoRig) -> None:
    rig.script("phone13", Refuse("VALIDATION_ERROR"), repeat=True)

    outcomes = await rig.provider().send(messages(*(f"phone{number}" for number in range(40))), now=NOW)

    assert [place for place, outcome in enumerate(outcomes) if not isinstance(outcome, Sent)] == [13]
    assert isinstance(outcomes[13], Rejected)
    assert outcomes[13].code == "VALIDATION_ERROR"
    assert rig.stats.duplicates == 0


async def test_a_part_that_fails_keeps_the_outcomes_of_the_others(rig: ExpoRig) -> None:
    rig.expo.projects[token("b")] = "@other/app"
    rig.script("b", Cut())

    outcomes = await rig.provider().send(messages("a", "b", "c"), now=NOW)

    assert [type(outcome) for outcome in outcomes] == [Sent, Retry, Sent]


async def test_all_parts_together_keep_within_the_time_out(rig: ExpoRig) -> None:
    for number in range(6):
        rig.expo.projects[token(f"phone{number}")] = f"@other/app{number}"
        rig.script(f"phone{number}", Hang())
    provider = rig.provider(timeout_seconds=0.5)

    outcomes = await provider.send(messages(*(f"phone{number}" for number in range(6))), now=NOW)

    assert [outcome.code for outcome in outcomes if isinstance(outcome, Retry)] == ["timeout"] * 6
    assert rig.stats.requests == 2


async def test_it_is_a_provider_that_gives_receipts(rig: ExpoRig) -> None:
    provider = rig.expo_provider()

    assert isinstance(provider, GivesReceipts)
    assert (provider.receipts_after, provider.receipts_kept) == (timedelta(minutes=15), timedelta(hours=24))
    assert (provider.receipts_batch, provider.limits.batch) == (300, 100)


async def test_what_is_sent_is_compressed_when_it_is_worth_it(rig: ExpoRig) -> None:
    bodies: list[bytes] = []

    def take(body: bytes) -> CannedAnswer:
        bodies.append(body)
        plain = zlib.decompress(body, 31) if body.startswith(b"\x1f\x8b") else body
        count = len(msgspec.json.decode(plain))
        tickets = [{"status": "ok", "id": str(number)} for number in range(count)]
        return CannedAnswer(body=msgspec.json.encode({"data": tickets}))

    async with Http2Peer(rig.sandbox.ca_file.parent, take) as peer:
        provider = rig.provider(base_url=peer.url)
        many = await provider.send(messages(*(f"phone{number}" for number in range(100))), now=NOW)
        one = await provider.send(messages("phone"), now=NOW)

    assert all(isinstance(outcome, Sent) for outcome in (*many, *one))
    large, small = bodies
    assert large.startswith(b"\x1f\x8b")
    assert len(zlib.decompress(large, 31)) > 3 * len(large)
    assert small.startswith(b"[{")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>",
        b"[]",
        b'{"data": []}',
        b'{"data": [{"status": "ok", "id": "1"}]}',
        b'{"data": [{"status": "ok", "id": "1"}, {"status": "ok", "id": "2"}, {"status": "ok", "id": "3"}]}',
        b'{"data": {"status": "ok", "id": "1"}}',
        b'{"data": ' + b"[" * 5_000,
        b'{"data": [{"status": "\xff"}]}',
    ],
)
async def test_an_answer_that_does_not_fit_the_question_is_a_retry_for_each(
    rig: ExpoRig, body: bytes
) -> None:
    async with Http2Peer(rig.sandbox.ca_file.parent, lambda _: CannedAnswer(body=body)) as peer:
        outcomes = await rig.provider(base_url=peer.url).send(messages("a", "b"), now=NOW)

    assert [type(outcome) for outcome in outcomes] == [Retry, Retry]
    assert isinstance(outcomes[0], Retry)
    assert outcomes[0].code == "unreadable_answer"


async def test_a_ticket_with_odd_company_is_taken_for_what_it_is(rig: ExpoRig) -> None:
    tickets: list[Any] = [
        {"status": "ok", "id": "1", "details": 7, "message": {"a": 1}, "new": []},
        {"status": "error", "details": "odd", "message": None},
        {"status": "error", "details": {"error": "SomethingNew"}, "message": f"{token('c')} is odd"},
        {"status": "ok"},
    ]
    answer = CannedAnswer(body=msgspec.json.encode({"data": tickets}))
    async with Http2Peer(rig.sandbox.ca_file.parent, lambda _: answer) as peer:
        outcomes = await rig.provider(base_url=peer.url).send(messages("a", "b", "c", "d"), now=NOW)

    assert list(outcomes) == [
        Sent("1"),
        Retry("unknown_error", speaks_against="target"),
        Retry("SomethingNew", "[token] is odd", speaks_against="target"),
        Sent(None),
    ]


@pytest.mark.parametrize("odd", [None, 7, "ok", [], {"status": 1}, {"status": "ok", "id": 12}])
async def test_a_ticket_or_receipt_that_cannot_be_parsed_costs_no_other(rig: ExpoRig, odd: Any) -> None:
    tickets = [{"status": "ok", "id": "1"}, odd, {"status": "ok", "id": "3"}]
    answers = iter((tickets, dict(zip("abc", tickets, strict=True))))

    def answer(_: bytes) -> CannedAnswer:
        return CannedAnswer(body=msgspec.json.encode({"data": next(answers)}))

    async with Http2Peer(rig.sandbox.ca_file.parent, answer) as peer:
        provider = rig.expo_provider(base_url=peer.url)
        outcomes = await provider.send(messages("a", "b", "c"), now=NOW)
        receipts = await provider.receipts(["a", "b", "c"], now=NOW)

    assert [outcomes[0], outcomes[2]] == [Sent("1"), Sent("3")]
    assert isinstance(outcomes[1], Retry)
    assert (outcomes[1].code, outcomes[1].speaks_against) == ("unreadable_answer", "target")
    assert receipts == [Delivered(), NotYet(), Delivered()]


async def test_errors_that_come_with_status_200_are_understood(rig: ExpoRig) -> None:
    refused = CannedAnswer(body=b'{"errors": [{"code": "TOO_MANY_REQUESTS", "message": "slow down"}]}')
    async with Http2Peer(rig.sandbox.ca_file.parent, lambda _: refused) as peer:
        outcome = await send_one(rig.provider(base_url=peer.url), token("phone"))

    assert outcome == Defer("TOO_MANY_REQUESTS", RATE_REST, "slow down")


async def test_an_outage_is_a_retry_as_long_as_expo_asks(rig: ExpoRig) -> None:
    rig.faults.outage(Outage(retry_after=30))

    outcome = await send_one(rig.provider(), token("phone"))

    assert isinstance(outcome, Retry)
    assert outcome.after == timedelta(seconds=30)


async def test_the_access_token_is_sent_and_shows_up_nowhere(
    rig: ExpoRig, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    rig.expo.access_token = "s3cret-t0ken"
    allowed = rig.provider(access_token="s3cret-t0ken")
    barred = rig.provider(access_token="0ther-t0ken")

    assert isinstance(await send_one(allowed, token("phone")), Sent)
    outcome = await send_one(barred, token("phone"))

    assert isinstance(outcome, Defer)
    assert (outcome.code, outcome.pauses, outcome.alarm) == ("UNAUTHORIZED", True, True)
    told = repr(outcome) + repr(vars(allowed)) + repr(vars(barred)) + caplog.text
    assert "t0ken" not in told


async def test_an_access_token_that_expo_quotes_is_hidden(rig: ExpoRig) -> None:
    error = {"code": "UNAUTHORIZED", "message": "s3cret-t0ken is not known"}
    answer = CannedAnswer(401, body=msgspec.json.encode({"errors": [error]}))
    async with Http2Peer(rig.sandbox.ca_file.parent, lambda _: answer) as peer:
        outcome = await send_one(rig.provider(base_url=peer.url, access_token="s3cret-t0ken"), token("phone"))

    assert outcome == Defer("UNAUTHORIZED", ALARM_REST, "[token] is not known", alarm=True)


async def test_tokens_of_every_shape_stay_secret_when_they_are_quoted(rig: ExpoRig) -> None:
    shapes = ["ExpoPushToken[s3cret]", "s3cret-raw-t0ken", "s3cretaa-0000-4000-8000-00000000aaaa"]
    rig.sandbox.phones.unregister(shapes[0])
    rig.sandbox.phones.unregister(shapes[2])

    outcomes: Sequence[Outcome] = await rig.provider().send([a_message(shape) for shape in shapes], now=NOW)

    assert [type(outcome) for outcome in outcomes] == [Gone, Gone, Gone]
    assert "s3cret" not in repr(outcomes)


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"base_url": "exp.host"}, "expo.base_url"),
        ({"ca_file": Path("/nowhere/ca.pem")}, "expo.ca_file"),
        ({"access_token": "Bearer s3cret"}, "expo.access_token"),
        ({"access_token": "s3cret\n"}, "expo.access_token"),
        ({"access_token": ""}, "expo.access_token"),
    ],
)
def test_settings_that_cannot_work_are_named_and_stop_the_start(settings: dict[str, Any], field: str) -> None:
    made = ExpoSettings(**settings)

    (fault,) = made.faults()

    assert fault.field == field
    with pytest.raises(ProviderSetupError, match=field) as caught:
        ExpoProvider(made)
    assert "s3cret" not in str(caught.value)


def test_the_settings_do_not_show_the_access_token() -> None:
    settings = ExpoSettings(enabled=True, access_token="s3cret")

    assert "s3cret" not in repr(settings)
    assert list(settings.faults()) == []
