import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.domain.catalog import PARTS, NotificationType
from tocsin.domain.faults import Fault
from tocsin.domain.toggles import ChannelToggle, ProviderToggle, TypeToggle, doubt, read_toggle, toggles_of

TYPES = {
    "new_customer": NotificationType(
        name="new_customer",
        version=1,
        category="sales",
        channels=("push",),
        default_locale="en",
        payload_schema={},
    )
}

type_names = st.from_regex(r"[a-z][a-z0-9_-]{0,20}([.][a-z0-9_-]{1,9}){0,2}", fullmatch=True)
channels = st.sampled_from(list(PARTS))


@given(
    st.one_of(
        st.builds(TypeToggle, type_names, st.none() | channels),
        st.builds(ChannelToggle, channels),
        st.builds(ProviderToggle, st.from_regex(r"[a-z][a-z0-9_-]{0,20}", fullmatch=True)),
    )
)
def test_a_name_says_which_toggle_it_is(toggle: TypeToggle | ChannelToggle | ProviderToggle) -> None:
    assert read_toggle(str(toggle)) == toggle


@given(st.text())
def test_whatever_is_read_is_written_the_same(name: str) -> None:
    read = read_toggle(name)

    assert isinstance(read, Fault) or str(read) == name


@given(type_names, channels)
def test_the_toggles_of_a_route_are_names(kind: str, channel: str) -> None:
    for name in toggles_of(kind, channel):
        assert not isinstance(read_toggle(name), Fault)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", "'' is not the name of a toggle, which is type:<name>"),
        ("new_customer", "'new_customer' is not the name of a toggle"),
        ("type:", "'type:' is not the name"),
        ("type:New", "'type:New' is not the name"),
        ("type:new_customer ", "'type:new_customer ' is not the name"),
        ("type:new_customer\n", "is not the name"),
        ("type:a:push:now", "is not the name"),
        ("type:" + "a" * 101, "is not the name"),
        ("type:a:sms", "'sms' is not a channel; channels are push, email, inbox, webhook"),
        ("channel:", "'' is not a channel"),
        ("channel:sms", "'sms' is not a channel"),
        ("provider:fcm:push", "is not the name"),
        ("provider:FCM", "is not the name"),
    ],
)
def test_what_names_nothing_is_told(name: str, message: str) -> None:
    fault = read_toggle(name)

    assert isinstance(fault, Fault)
    assert message in fault.message


@pytest.mark.parametrize(
    ("toggle", "message"),
    [
        (TypeToggle("new_customer"), None),
        (TypeToggle("new_customer", "push"), None),
        (TypeToggle("new_customer", "email"), "new_customer does not go by email, only by push"),
        (TypeToggle("new_custmer"), "The catalog has no type 'new_custmer'; did you mean new_customer?"),
        (TypeToggle("zzz"), "The catalog has no type 'zzz'"),
        (ChannelToggle("email"), None),
        (ProviderToggle("fcm"), None),
    ],
)
def test_a_toggle_without_effect_is_doubted(
    toggle: TypeToggle | ChannelToggle | ProviderToggle, message: str | None
) -> None:
    assert doubt(toggle, TYPES) == message
