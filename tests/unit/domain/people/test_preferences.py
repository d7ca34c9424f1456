"""What choices mean, which changes are taken, and what a category lets people refuse."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.domain.catalog import Channel, NotificationType, Policies
from tocsin.domain.people.preferences import (
    MOST_CATEGORIES,
    Category,
    Choice,
    allows,
    categories,
    change_faults,
    readable,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
STORED = st.dictionaries(
    st.sampled_from(["orders", "offers"]),
    JSON | st.dictionaries(st.sampled_from(["push", "email"]), JSON, max_size=2),
    max_size=2,
)


@pytest.mark.parametrize(
    ("choices", "expected"),
    [
        (None, Choice.DEFAULT_YES),
        ({}, Choice.DEFAULT_YES),
        ({"offers": {"push": False}}, Choice.DEFAULT_YES),
        ({"orders": {}}, Choice.DEFAULT_YES),
        ({"orders": {"email": False}}, Choice.DEFAULT_YES),
        ({"orders": {"push": True}}, Choice.YES),
        ({"orders": {"push": False}}, Choice.NO),
        ({"orders": {"push": None}}, Choice.MALFORMED_YES),
        ({"orders": {"push": 0}}, Choice.MALFORMED_YES),
        ({"orders": {"push": 1}}, Choice.MALFORMED_YES),
        ({"orders": {"push": "false"}}, Choice.MALFORMED_YES),
        ({"orders": {"push": {}}}, Choice.MALFORMED_YES),
        ({"orders": {"push": []}}, Choice.MALFORMED_YES),
        ({"orders": False}, Choice.MALFORMED_YES),
        ({"orders": None}, Choice.MALFORMED_YES),
        ({"orders": ["push"]}, Choice.MALFORMED_YES),
        ([], Choice.MALFORMED_YES),
        ("no", Choice.MALFORMED_YES),
        (False, Choice.MALFORMED_YES),
    ],
)
def test_only_a_plain_no_is_a_no(choices: Any, expected: Choice) -> None:
    assert allows(choices, "orders", "push") is expected


@given(STORED | JSON)
def test_whatever_is_stored_can_be_read_and_shows_what_counts(stored: Any) -> None:
    shown = readable(stored)
    for category in ("orders", "offers"):
        for channel in ("push", "email"):
            said = shown.get(category, {}).get(channel)
            assert (said is False) == (allows(stored, category, channel) is Choice.NO)
            assert (said is True) == (allows(stored, category, channel) is Choice.YES)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"orders": None},
        {"orders": {}},
        {"orders": {"push": True, "email": False, "inbox": None, "webhook": True}},
        {"a" * 64: {"push": False}},
        {f"c{number}": None for number in range(MOST_CATEGORIES)},
    ],
)
def test_good_changes_have_no_faults(changes: Any) -> None:
    assert list(change_faults(changes)) == []


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ([], {"$": "invalid"}),
        (None, {"$": "invalid"}),
        ({f"c{number}": None for number in range(MOST_CATEGORIES + 1)}, {"$": "too_many"}),
        ({"": None}, {'""': "invalid"}),
        ({"a" * 65: None}, {"a" * 65: "invalid"}),
        ({"a" * 900: None}, {"a" * 65: "invalid"}),
        ({"Orders": None, "o\u0000": None}, {"Orders": "invalid", "o\ufffd": "invalid"}),
        ({"orders\n": None}, {"orders\ufffd": "invalid"}),
        ({"orders": True, "offers": []}, {"orders": "invalid", "offers": "invalid"}),
        (
            {"orders": {"push": "no", "sms": True, "email": 1}},
            {"orders.push": "invalid", "orders.sms": "unknown", "orders.email": "invalid"},
        ),
    ],
)
def test_every_fault_of_changes_is_named(changes: Any, expected: dict[str, str]) -> None:
    assert {fault.field: fault.code for fault in change_faults(changes)} == expected


def a_type(name: str, category: str, *channels: Channel, critical: bool = False) -> NotificationType:
    return NotificationType(
        name=name,
        version=1,
        category=category,
        channels=channels,
        default_locale="en",
        payload_schema={},
        policies=Policies(critical=critical),
    )


def test_a_category_tells_how_far_a_no_counts() -> None:
    types = [
        a_type("order_paid", "orders", "push", "email"),
        a_type("order_lost", "orders", "push", critical=True),
        a_type("login", "security", "email", critical=True),
    ]

    assert categories(types) == [
        Category("orders", {"email": "all", "push": "not_critical"}),
        Category("security", {"email": "none"}),
    ]
    assert categories([]) == []


def test_a_category_has_only_what_people_can_get() -> None:
    mixed = msgspec.structs.replace(
        a_type("submitted", "lobby", "push", "email", "webhook"),
        audiences={"users": ("push",), "attributes": ("email",), "admins": ("email",)},
    )
    for_admins = msgspec.structs.replace(a_type("failed", "ops", "email"), audiences={"admins": ("email",)})

    assert categories([mixed, for_admins]) == [Category("lobby", {"email": "all", "push": "all"})]
