from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.api.http.bodies import DEEPEST, MOST_FAULTS, Broken, Faulty, read_body
from tocsin.domain.intent import Intent
from tocsin.wire.people import PutUsers, RegisterDevice

GOOD: dict[str, Any] = {
    "type": "t",
    "audience": {"users": ["ada", 7]},
    "payload": {"a": [1, {"b": None}]},
    "idempotency_key": "k",
    "send_at": "2026-03-01T10:00:00Z",
}
REGISTRATION: dict[str, Any] = {"token": "t", "platform": "ios", "locale": "tr", "timezone": "Asia/Seoul"}

texts = st.text(st.characters(codec="utf-8"), max_size=8)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)


def faults_of(value: Any, kind: Any) -> dict[str, str]:
    read = read_body(msgspec.json.encode(value), kind)
    assert isinstance(read, Faulty)
    return {fault.field: fault.code for fault in read.faults}


@given(body=st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(body: bytes) -> None:
    assert isinstance(read_body(body, Intent), Intent | Faulty | Broken)


@given(value=values, kind=st.sampled_from([Intent, RegisterDevice, PutUsers]))
def test_any_json_is_read_or_its_faults_are_named(value: Any, kind: type) -> None:
    read = read_body(msgspec.json.encode(value), kind)

    assert isinstance(read, Faulty)
    assert read.faults
    assert all(fault.field and fault.field.isprintable() for fault in read.faults)


@given(wrong=st.dictionaries(st.sampled_from([*GOOD, "colour"]), values, min_size=1))
def test_a_changed_intent_is_read_or_faulty_in_the_changed_fields(wrong: dict[str, Any]) -> None:
    read = read_body(msgspec.json.encode(GOOD | wrong), Intent)

    assert isinstance(read, Intent | Faulty)
    if isinstance(read, Faulty):
        assert {fault.field.split(".")[0].split("[")[0] for fault in read.faults} <= wrong.keys()


@given(wrong=st.sets(st.sampled_from(list(REGISTRATION)), min_size=1))
def test_each_broken_rule_is_named_along_with_each_wrong_type(wrong: set[str]) -> None:
    broken = {"token": " ", "platform": 7, "locale": "?", "timezone": "Nowhere"}

    assert faults_of(REGISTRATION | {name: broken[name] for name in wrong}, RegisterDevice) == dict.fromkeys(
        wrong, "invalid"
    )


@pytest.mark.parametrize("levels", [DEEPEST - 1, DEEPEST, DEEPEST + 1, 500, 5_000, 200_000])
def test_depth_is_bounded(levels: int) -> None:
    nested = b"[" * levels + b"]" * levels
    body = b'{"type":"t","audience":{"admins":true},"idempotency_key":"k","payload":{"a":' + nested + b"}}"

    read = read_body(body, Intent)

    # The body's own object and the payload are two levels above.
    if levels + 2 <= DEEPEST:
        assert isinstance(read, Intent)
    else:
        assert isinstance(read, Faulty)
        assert [fault.code for fault in read.faults] == ["too_deep"]


def test_an_escaped_backslash_is_no_nul() -> None:
    assert isinstance(read_body(msgspec.json.encode(GOOD | {"payload": {"a": "\\u0000"}}), Intent), Intent)
    assert faults_of(GOOD | {"payload": {"a": "\x00"}}, Intent) == {"payload.a": "nul_character"}


def test_the_list_of_faults_is_bounded() -> None:
    many = GOOD | {f"field{number}": number for number in range(500)}

    assert len(faults_of(many, Intent)) == MOST_FAULTS
