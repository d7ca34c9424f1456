"""Messages as SNS takes them: ids, sizes, forms."""

from itertools import pairwise
from typing import Any
from urllib.parse import parse_qsl

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.aws.publisher.office import FIFO, envelope
from tocsin.aws.publisher.batches import batches
from tocsin.aws.publisher.form import publish_form
from tocsin.aws.publisher.messages import LARGEST_MESSAGE, groups, largest_size, message
from tocsin.wire.fisa.envelope import FisaEnvelope, decode_envelope
from tocsin.wire.fisa.ids import message_key

EVENT = "0190b5d2-7c4e-7a11-9c0e-3f6a5b2d1e40"
texts = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1, max_size=200)
ids = st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]), min_size=1, max_size=128)
# Those that deceive a terminal, and those that a path would lose, are refused.
user_ids = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cc", "Cf", "Zl", "Zp"]), min_size=1, max_size=128
).filter(lambda each: each not in {".", ".."})


def made(*recipients: str, **changes: Any) -> FisaEnvelope:
    return msgspec.convert(envelope(*recipients, **changes), FisaEnvelope)


@pytest.mark.parametrize(
    ("event", "user", "written"),
    [
        (EVENT, "ada", f"{EVENT}-ada"),
        (EVENT, "u-1", f"{EVENT}-u-1"),
        (EVENT, None, EVENT),
        ("office:17", "ada", "office:17-ada"),
    ],
)
def test_a_plain_id_is_written_as_it_is(event: str, user: str | None, written: str) -> None:
    assert message_key(event, user) == written


@pytest.mark.parametrize(
    ("event", "user"),
    [("a-b", "c"), ("e" * 120, "ada-lovelace"), ("é", "ada"), ("e", "a b"), ("evt-1", None)],
)
def test_another_is_hashed(event: str, user: str | None) -> None:
    made_of = message_key(event, user)

    assert len(made_of) == 64
    assert made_of == message_key(event, user)


@given(st.lists(st.tuples(ids, ids | st.none()), min_size=2, unique=True))
def test_no_two_messages_have_the_same_id(pairs: list[tuple[str, str | None]]) -> None:
    written = [message_key(event, user) for event, user in pairs]

    assert len(set(written)) == len(pairs)
    assert all(1 <= len(each) <= 128 and each.isascii() and each.isprintable() for each in written)


@given(st.lists(user_ids, min_size=1, unique=True))
def test_each_user_has_a_group_of_their_own(users: list[str]) -> None:
    found = groups(made(*users))

    assert [group.user for group in found] == users
    assert len({group.name for group in found}) == len({group.key for group in found}) == len(users)
    assert all(group.name.startswith("user-") and len(group.name) <= 128 for group in found)
    assert all(group.name.isascii() and " " not in group.name for group in found)


@given(texts, ids, st.dictionaries(texts, texts, max_size=3))
def test_a_form_has_what_was_written_and_its_size(title: str, user: str, extras: dict[str, str]) -> None:
    written = made(user, title=title, extras=extras, org_id=user)
    sent = message(written, groups(written)[0], fifo=True)

    form = dict(parse_qsl(publish_form(FIFO, [sent, sent]).decode(), strict_parsing=True))

    member = "PublishBatchRequestEntries.member.2."
    assert form["TopicArn"] == FIFO
    assert form[f"{member}Id"] == "1"
    read = decode_envelope(form[f"{member}Message"])
    assert (read.title, read.users, read.extras or {}) == (title, [user], extras)
    attributes = {
        name: value for name, value in form.items() if name.startswith(f"{member}MessageAttributes")
    }
    assert attributes[f"{member}MessageAttributes.entry.2.Name"] == "org_id"
    assert not {"\ufffe", "\uffff"} & {*"".join(form.values())}
    names = ("Name", "Value.DataType", "Value.StringValue")
    counted = [value for name, value in attributes.items() if name.endswith(names)]
    assert sent.size == sum(len(each.encode()) for each in [form[f"{member}Message"], *counted])
    assert largest_size(written) == sent.size


@given(st.lists(st.integers(1, LARGEST_MESSAGE), max_size=60))
def test_batches_have_at_most_ten_messages_and_their_size(sizes: list[int]) -> None:
    made_of = list(batches((size, size) for size in sizes))

    assert [size for batch in made_of for size in batch] == sizes
    assert all(1 <= len(batch) <= 10 and sum(batch) <= LARGEST_MESSAGE for batch in made_of)
    # None could have taken the first of the next.
    for batch, later in pairwise(made_of):
        assert len(batch) == 10 or sum(batch) + later[0] > LARGEST_MESSAGE


def test_a_message_as_large_as_sns_takes_is_not_too_large() -> None:
    bare = made("ada", extras={"text": ""})
    room = LARGEST_MESSAGE - largest_size(bare)

    assert largest_size(made("ada", extras={"text": "x" * room})) == LARGEST_MESSAGE
