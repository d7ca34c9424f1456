import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.domain.catalog import PARTS
from tocsin.domain.delivery.held_by import (
    HeldBy,
    HeldByDigest,
    HeldByHost,
    HeldByOrder,
    HeldByToggle,
    HeldByUnknownType,
    parse_held_by,
    stored_held_by,
)
from tocsin.domain.toggles import ChannelToggle, Toggle, TypeToggle

names = st.from_regex(r"[a-z][a-z0-9_-]{0,40}([.][a-z0-9_-]{1,40})?", fullmatch=True)
channels = st.sampled_from(list(PARTS))
toggles: st.SearchStrategy[Toggle] = st.one_of(
    st.builds(TypeToggle, names, st.none() | channels), st.builds(ChannelToggle, channels)
)
holders: st.SearchStrategy[HeldBy] = st.one_of(
    st.builds(HeldByToggle, toggles),
    st.just(HeldByOrder()),
    st.just(HeldByDigest()),
    st.builds(HeldByHost, st.text()),
    st.builds(HeldByUnknownType, names, st.integers(1, 999_999)),
)


@given(holders)
def test_what_is_stored_is_read_as_the_same(held_by: HeldBy) -> None:
    assert parse_held_by(stored_held_by(held_by)) == held_by


@given(holders, holders)
def test_two_holders_are_never_stored_alike(one: HeldBy, other: HeldBy) -> None:
    assert (stored_held_by(one) == stored_held_by(other)) == (one == other)


@pytest.mark.parametrize(
    ("held_by", "text"),
    [
        (HeldByToggle(TypeToggle("comment")), "type:comment"),
        (HeldByToggle(TypeToggle("comment", "push")), "type:comment:push"),
        (HeldByToggle(ChannelToggle("email")), "channel:email"),
        (HeldByOrder(), "order"),
        (HeldByDigest(), "digest"),
        (HeldByUnknownType("shop.order", 3), "type_unknown:shop.order@3"),
        (HeldByHost("webhook/shop.example:8443"), "host:webhook/shop.example:8443"),
    ],
)
def test_each_holder_is_stored_under_the_name_that_queries_use(held_by: HeldBy, text: str) -> None:
    assert stored_held_by(held_by) == text
    assert parse_held_by(text) == held_by


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nonsense",
        "Order",
        "order ",
        "digest:7",
        "recovery",
        "busy:fcm",
        "circuit:fcm",
        "hosts:webhook/shop.example",
        "type:",
        "type:Comment",
        "type:comment:fax",
        "channel:fax",
        "channel:push:comment",
    ],
)
def test_a_text_that_names_no_holder_is_unknown(text: str) -> None:
    assert parse_held_by(text) is None
