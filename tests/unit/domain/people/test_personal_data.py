from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.domain.personal_data import MOST_VALUES, Suspicion, suspected_personal_data


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("write to ada.lovelace+work@mail.example.org today", "email"),
        ("ADA@EXAMPLE.ORG", "email"),
        ("call +84 912 345 678", "phone"),
        ("+1 (415) 555-2671", "phone"),
        ("+4915123456789", "phone"),
        ("4111 1111 1111 1111", "card"),
        ("card 5500-0000-0000-0004.", "card"),
        ("378282246310005", "card"),
        (4_111_111_111_111_111, "card"),
        ("GB82 WEST 1234 5698 7654 32", "iban"),
        ("DE89370400440532013000", "iban"),
        ("SSN 219-09-9999", "national_id"),
    ],
    ids=str,
)
def test_what_looks_like_personal_data_is_found(text: Any, kind: str) -> None:
    assert suspected_personal_data({"body": text}) == [Suspicion("body", kind)]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text",
    [
        "New comment on work item 7",
        "@ada mentioned you",
        "fisa://work-item/0190b5d2-7c4e-7a11-9c0e-3f6a5b2d1e40?tab=comments",
        "12345678-1234-1234-1234-123456789012",
        "2026-03-01T12:00:00+07:00",
        "1772366400000",
        "order 4111111111111112",  # its check digit is wrong
        "4111 1111 1111 1111 1111",
        "0000 0000 0000 0000",
        "version 1.2.3+20260301",
        "+5 points",
        "2 + 2 = 4",
        "INV-2026-000123456",
        "000-12-3456",
        "GB82 WEST 1234 5698 7654 33",
        "192.168.100.200",
        "image@2x.png",
        1_772_366_400_000,
        True,
        None,
        3.14,
    ],
    ids=str,
)
def test_what_does_not_is_left_alone(text: Any) -> None:
    assert suspected_personal_data({"body": text}) == []


def test_only_paths_are_shown_and_a_key_that_is_data_itself_is_not() -> None:
    payload = {
        "extras": {
            "contacts": [{"mail": "a@example.org"}, {"mail": "b@example.org"}],
            "ada@example.org": "+4915123456789",
            "k" * 65: "a@example.org",
        }
    }

    found = suspected_personal_data(payload)

    assert found == [
        Suspicion("extras.*", "phone"),
        Suspicion("extras.*", "email"),
        Suspicion("extras.contacts[].mail", "email"),
    ]


def test_the_work_is_bounded() -> None:
    deep: Any = "a@example.org"
    for _ in range(100_000):
        deep = [deep]

    assert suspected_personal_data({"deep": deep, "many": ["x"] * 1_000_000}) == []
    assert suspected_personal_data({"many": [*["x"] * MOST_VALUES, "a@example.org"]}) == []
    assert suspected_personal_data({"long": "a" * 1_000_000 + "@" + "b." * 500_000}) == []


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda below: st.lists(below) | st.dictionaries(st.text(), below),
    max_leaves=20,
)


@given(st.dictionaries(st.text(), values))
def test_any_payload_can_be_checked_and_no_value_is_shown(payload: dict[str, Any]) -> None:
    for suspicion in suspected_personal_data(payload):
        assert suspected_personal_data({"field": suspicion.field}) == []
