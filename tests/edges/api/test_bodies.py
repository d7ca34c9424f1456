from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.api.http.bodies import DEEPEST, MOST_FAULTS, decode
from tocsin.api.http.problems import ProblemError
from tocsin.domain.faults import Fault
from tocsin.domain.intent import Intent
from tocsin.wire.people import PutUsers, RegisterDevice
from tocsin.wire.problems import Problem

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


def read(body: bytes, kind: Any) -> object:
    """Return the decoded body, or the problem with it."""
    try:
        return decode(body, kind)
    except ProblemError as error:
        return error.problem


def faults_in(body: bytes, kind: Any) -> Sequence[Fault]:
    problem = read(body, kind)
    assert isinstance(problem, Problem)
    assert problem.code == "invalid_body"
    assert problem.errors
    return problem.errors


def faults_of(value: Any, kind: Any) -> dict[str, str]:
    return {fault.field: fault.code for fault in faults_in(msgspec.json.encode(value), kind)}


@given(body=st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(body: bytes) -> None:
    assert isinstance(read(body, Intent), Intent | Problem)


@given(value=values, kind=st.sampled_from([Intent, RegisterDevice, PutUsers]))
def test_any_json_is_read_or_its_faults_are_named(value: Any, kind: type) -> None:
    faults = faults_in(msgspec.json.encode(value), kind)

    assert all(fault.field and fault.field.isprintable() for fault in faults)


@given(wrong=st.dictionaries(st.sampled_from([*GOOD, "colour"]), values, min_size=1))
def test_a_changed_intent_is_read_or_faulty_in_the_changed_fields(wrong: dict[str, Any]) -> None:
    body = msgspec.json.encode(GOOD | wrong)

    if not isinstance(read(body, Intent), Intent):
        faults = faults_in(body, Intent)
        assert {fault.field.split(".")[0].split("[")[0] for fault in faults} <= wrong.keys()


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

    # The body's own object and the payload are two levels above.
    if levels + 2 <= DEEPEST:
        assert isinstance(read(body, Intent), Intent)
    else:
        assert [fault.code for fault in faults_in(body, Intent)] == ["too_deep"]


def test_an_escaped_backslash_is_no_nul() -> None:
    assert isinstance(read(msgspec.json.encode(GOOD | {"payload": {"a": "\\u0000"}}), Intent), Intent)
    assert faults_of(GOOD | {"payload": {"a": "\x00"}}, Intent) == {"payload.a": "nul_character"}


def test_the_list_of_faults_is_bounded() -> None:
    many = GOOD | {f"field{number}": number for number in range(500)}

    assert len(faults_of(many, Intent)) == MOST_FAULTS
