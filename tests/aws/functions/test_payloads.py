"""The payloads for Apple and Google, whatever an envelope holds."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.aws.functions.events import envelope
from tocsin.aws.functions.mobile.answers import Answer, Failed, Gone, Refused, classify
from tocsin.aws.functions.mobile.payloads import PAYLOAD_BYTES, collapse_id, platform_message
from tocsin.aws.functions.results import NeverDeliveredError
from tocsin.wire.fisa.envelope import FisaEnvelope

PARTS = ("APNS", "APNS_SANDBOX", "GCM")


def parts_of(**changes: Any) -> dict[str, Any]:
    whole: dict[str, Any] = json.loads(platform_message(built(**changes)).message)
    assert whole.keys() == {"default", *PARTS}
    for name in PARTS:
        assert len(whole[name].encode()) <= PAYLOAD_BYTES
    return whole | {name: json.loads(whole[name]) for name in PARTS}


def built(**changes: Any) -> FisaEnvelope:
    return msgspec.convert(envelope("ada", **changes), FisaEnvelope)


texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=1_000)
extras = st.dictionaries(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
    | st.lists(st.integers(0, 9), max_size=3),
    max_size=5,
)


@given(title=texts, body=texts.map(lambda text: text * 10), extras=extras)
def test_every_part_fits_and_holds_what_the_app_reads(title: str, body: str, extras: dict[str, Any]) -> None:
    try:
        whole = parts_of(title=title, body=body, extras=extras)
    except NeverDeliveredError as error:
        assert error.code == "payload_too_large"  # noqa: PT017 - a title of 1,000 wide characters may be too large
        assert len(title.encode()) > 2_000
        return

    alert = whole["APNS"]["aps"]["alert"]
    message = whole["GCM"]["fcmV1Message"]["message"]
    assert alert["title"] == message["notification"]["title"] == title
    for shown in (alert["body"], message["notification"]["body"]):
        assert shown == body or (shown.endswith("…") and body.startswith(shown.removesuffix("…")))
    assert whole["APNS"]["custom"].get("extras", {}) == extras
    assert all(isinstance(value, str) for value in message["data"].values())
    assert message["data"]["deep_link"] == "fisa://work-item/7?tab=comments"


def test_a_long_body_is_cut_no_more_than_it_must_be() -> None:
    message = platform_message(built(body="ä" * 5_000))

    assert message.is_cut
    sizes = [len(json.loads(message.message)[name].encode()) for name in PARTS]
    assert all(PAYLOAD_BYTES - 2 <= size <= PAYLOAD_BYTES for size in sizes)


def test_what_the_app_reads_is_never_cut() -> None:
    with pytest.raises(NeverDeliveredError) as raised:
        platform_message(built(extras={"blob": "x" * 5_000}))

    assert raised.value.code == "payload_too_large"


def test_names_that_google_keeps_for_itself_are_changed_and_own_names_win() -> None:
    whole = parts_of(extras={"from": "a", "google.x": 1, "deep_link": "other", "none": None, "list": [1]})

    data = whole["GCM"]["fcmV1Message"]["message"]["data"]
    assert (data["extras_from"], data["extras_google.x"], data["list"]) == ("a", "1", "[1]")
    assert data["deep_link"] == "fisa://work-item/7?tab=comments"
    assert "from" not in data
    assert "none" not in data


def test_extras_stand_where_the_envelope_has_nothing() -> None:
    whole = parts_of(deep_link=None, extras={"deep_link": "fisa://ticket/9"})

    assert whole["GCM"]["fcmV1Message"]["message"]["data"]["deep_link"] == "fisa://ticket/9"


def test_an_envelope_with_a_title_alone_has_no_empty_body() -> None:
    whole = parts_of(body=None)

    assert whole["default"] == "A new comment"
    assert whole["APNS"]["aps"]["alert"] == {"title": "A new comment"}


@given(event_id=st.text(min_size=1, max_size=200))
def test_a_collapse_id_is_one_of_apple_and_the_same_each_time(event_id: str) -> None:
    if any("\ud800" <= character <= "\udfff" for character in event_id):
        return
    made = collapse_id(event_id)

    assert len(made.encode()) <= 64
    assert made == collapse_id(event_id)


@pytest.mark.parametrize(
    ("code", "message", "answer"),
    [
        ("EndpointDisabled", "", Gone("EndpointDisabled")),
        ("NotFound", "", Gone("NotFound")),
        ("InvalidParameter", "Invalid parameter: TargetArn Reason: none", Gone("InvalidParameter")),
        ("InvalidParameter", "Invalid parameter: Message", Refused("InvalidParameter")),
        ("ParameterValueInvalid", "", Refused("ParameterValueInvalid")),
        ("PlatformApplicationDisabled", "", Failed("PlatformApplicationDisabled", alarm=True)),
        ("AuthorizationError", "", Failed("AuthorizationError", alarm=True)),
        ("Throttled", "", Failed("Throttled")),
        ("InternalError", "", Failed("InternalError")),
        ("", "", Failed("")),
        ("NewInSomeYears", "", Failed("NewInSomeYears")),
    ],
)
def test_answers(code: str, message: str, answer: Answer) -> None:
    assert classify(code, message) == answer
