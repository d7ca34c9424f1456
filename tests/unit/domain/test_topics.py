"""Conditions are read by FCM's grammar."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.domain.people.topics import MOST_TOPICS, condition_fault

TOPIC = st.from_regex(r"[a-zA-Z0-9\-_.~%]{1,8}", fullmatch=True).map("'{}' in topics".format)
SPACES = st.text(" ", max_size=2)


def combined(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    joined = st.tuples(inner, SPACES, st.sampled_from(["&&", "||"]), SPACES, inner).map("".join)
    return st.one_of(inner.map("({})".format), inner.map("!({})".format), inner.map("!{}".format), joined)


CONDITIONS = st.recursive(TOPIC, combined, max_leaves=MOST_TOPICS)


@given(CONDITIONS)
def test_what_the_grammar_makes_is_good(condition: str) -> None:
    assert (condition_fault(condition) is None) == (condition.count("topics") <= MOST_TOPICS)


@given(CONDITIONS, st.data())
def test_without_one_sign_it_is_not(condition: str, data: st.DataObject) -> None:
    places = [at for at, sign in enumerate(condition) if sign in "()&|'"]
    at = data.draw(st.sampled_from(places))

    assert condition_fault(condition[:at] + condition[at + 1 :]) is not None


@given(st.text("'ab in topics&|!() ", max_size=40))
def test_whatever_is_given_gets_an_answer(condition: str) -> None:
    answer = condition_fault(condition)

    assert answer is None or answer


@pytest.mark.parametrize(
    "condition",
    [
        "'a' in topics",
        "  'a'  in  topics  ",
        "'a'in topics",
        "!('a' in topics)",
        "!!'a' in topics",
        "'a' in topics && ('b' in topics || 'c' in topics)",
        "(('a' in topics)&&!('b' in topics))||'c' in topics",
        " && ".join(f"'{number}' in topics" for number in range(5)),
        "(" * 400 + "'a' in topics" + ")" * 400,
    ],
)
def test_a_condition_that_fcm_takes(condition: str) -> None:
    assert condition_fault(condition) is None


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        ("news", "character 1"),
        ("'a' in topic", "character 1"),
        ("'a' in topicsb", "character 1"),
        ("'a b' in topics", "character 1"),
        ('"a" in topics', "character 1"),
        ("'a' in topics & 'b' in topics", "character 14"),
        ("'a' in topics 'b' in topics", "'b' in topics is not allowed at character 15"),
        ("'a' in topics !('b' in topics)", "! is not allowed at character 15"),
        ("'a' in topics && || 'b' in topics", "|| is not allowed at character 18"),
        ("()", ") is not allowed at character 2"),
        ("'a' in topics)", "character 14 that was not opened"),
        ("('a' in topics", "open"),
        ("'a' in topics &&", "ends"),
        ("!", "ends"),
        ("   ", "ends"),
        (" || ".join(f"'{number}' in topics" for number in range(6)), "6 topics"),
    ],
)
def test_a_condition_that_fcm_refuses_is_told_why(condition: str, said: str) -> None:
    assert said in (condition_fault(condition) or "")
