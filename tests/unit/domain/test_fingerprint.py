import hashlib
import random
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
import rfc8785
from hypothesis import example, given
from hypothesis import strategies as st

from tocsin.domain.fingerprint import canonical_json, encode_sorted, fingerprint, intent_fingerprint
from tocsin.domain.intent import Audience, Intent

SAFE = 2**53 - 1
AT = datetime(2026, 3, 1, 12, 30, tzinfo=UTC)

texts = st.text(st.characters(codec="utf-8"))
awkward = st.text(st.sampled_from('\x00\x01\x08\t\n\x0b\x0c\r\x1f"\\/\x7f\x80\u2028é\ue000\uffff😀'))
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-SAFE, SAFE)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts
    | awkward
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts | awkward, inner, max_size=4),
    max_leaves=12,
)


@given(values)
@example({"\U0001f600": 1, "\ue000": 2, "a": 3})
@example({"€": 1, "\r": 2, "דּ": 3, "1": 4, "😀": 5, "\x80": 6, "ö": 7})
@example([1.0, -0.0, 1e21, 1e-7, 5e-324, 333333333.33333329])
@example({"b": True, "a": [False, 1, 0]})
def test_canonical_json_is_that_of_rfc_8785(value: Any) -> None:
    assert canonical_json(value) == rfc8785.dumps(value)


@given(st.dictionaries(texts | awkward, values, max_size=6), st.randoms(use_true_random=False))
def test_the_order_of_keys_does_not_count(value: dict[str, Any], dice: random.Random) -> None:
    shuffled = list(value.items())
    dice.shuffle(shuffled)

    assert fingerprint(dict(shuffled)) == fingerprint(value)


@given(values, values)
def test_other_content_has_another_fingerprint(one: Any, other: Any) -> None:
    same = rfc8785.dumps(one) == rfc8785.dumps(other)

    assert (fingerprint(one) == fingerprint(other)) is same


def test_the_fingerprint_is_sha_256() -> None:
    assert fingerprint({"b": 1, "a": 2}) == hashlib.sha256(b'{"a":2,"b":1}').digest()


@pytest.mark.parametrize("value", [2**53, -(2**53), [2**70], {"a": "\ud800"}, {"\ud800": 1}, float("nan")])
def test_what_has_no_canonical_form_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match=r"safe|codepoints|surrogates|represent"):
        canonical_json(value)


users = st.lists(texts | awkward | st.integers(0, 2**63 - 1), min_size=1, max_size=4)


@given(st.dictionaries(texts | awkward, values, max_size=4), users)
@example({"total": 1.0}, ["42"])
@example({"\U0001f600": 1, "\ue000": 2}, [42, "42", "\ue000", "\U0001f600"])
@example({"deep": {"é": [{"a": 2.5e-7}]}}, ["7", "7"])
def test_the_fingerprint_of_an_intent_is_over_its_canonical_json(
    payload: dict[str, Any], whom: list[str | int]
) -> None:
    intent = Intent(
        type="t", audience=Audience(users=whom), payload=payload, idempotency_key="1", ttl_seconds=9
    )
    content = {
        "type": "t",
        "version": None,
        "payload": payload,
        "ttl_seconds": 9,
        "collapse_key": None,
        "send_at": None,
        "occurred_at": None,
        "users": sorted({str(each) for each in whom}),
    }

    expected = hashlib.sha256(rfc8785.dumps(content)).digest()
    assert intent_fingerprint(intent) == expected
    assert intent_fingerprint(intent, encode_sorted(payload)) == expected


@pytest.mark.parametrize(
    "change",
    [
        {"version": 3},
        {"ttl_seconds": 60, "collapse_key": 'a"b'},
        {"send_at": AT, "occurred_at": AT},
        {"send_at_local": AT.replace(tzinfo=None), "locale": "tr_tr", "org_id": "acme"},
        {"audience": Audience(users=[7, "7", "b", "a"])},
        {"audience": Audience(emails=["a@B.c"])},
        {"audience": Audience(topic="news")},
        {"payload": {"b": 1.5, "a": 1}},
        {"type": "é"},
    ],
)
def test_a_payload_that_is_encoded_already_does_not_change_the_fingerprint(change: dict[str, Any]) -> None:
    usual = Intent(type="t", audience=Audience(users=["ada"]), payload={"b": 1, "a": 2}, idempotency_key="1")
    intent = msgspec.structs.replace(usual, **change)

    assert intent_fingerprint(intent, encode_sorted(intent.payload)) == intent_fingerprint(intent)


def test_attributes_count_in_their_canonical_form() -> None:
    def asking(name: str) -> bytes:
        audience = Audience(attributes={name: ["b", "a", "b"], "plan": "pro"})
        return intent_fingerprint(Intent(type="t", audience=audience, payload={}, idempotency_key="1"))

    for name in ("tags", "\U0001f600", "\ue000"):
        content = {
            "type": "t",
            "version": None,
            "payload": {},
            "ttl_seconds": None,
            "collapse_key": None,
            "send_at": None,
            "occurred_at": None,
            "attributes": {name: ["a", "b"], "plan": "pro"},
        }
        assert asking(name) == hashlib.sha256(rfc8785.dumps(content)).digest()
