import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.domain.delivery.outcome import Defer, Gone, Outcome, Rejected, Retry
from tocsin.providers.answers import ALARM_REST
from tocsin.providers.smtp.answers import (
    LONGEST_DETAIL,
    MEANINGS,
    OUTCOMES,
    RATE_REST,
    Meaning,
    SmtpAnswer,
    Stage,
    classify,
    read_answer,
    redact,
)
from tocsin.sandbox.smtp.replies import REFUSALS

STAGES: tuple[Stage, ...] = ("hello", "login", "sender", "recipient", "content")
AFTER_THE_TARGET: tuple[Stage, ...] = ("recipient", "content")
BEFORE_THE_TARGET: tuple[Stage, ...] = ("hello", "login", "sender")


def expected(meaning: Meaning, code: str, detail: str) -> Outcome:
    outcomes: dict[Meaning, Outcome] = {
        "busy": Retry(code, detail),
        "target_busy": Retry(code, detail, speaks_against="target"),
        "rate": Defer(code, RATE_REST, detail),
        "credentials": Defer(code, ALARM_REST, detail, alarm=True),
        "setup": Defer(code, ALARM_REST, detail, alarm=True),
        "rejected": Rejected(code, detail),
        "gone": Gone(code, detail),
    }
    return outcomes[meaning]


def example(row: str) -> SmtpAnswer:
    """Give an answer that this row is about and no more exact one."""
    reply, _, enhanced = row.rpartition(" ") if " " in row or "." in row else (row, "", "")
    if not reply:
        reply = f"{enhanced[0]}99"
    elif len(reply) == 1:
        reply += "98"
    if enhanced.count(".") == 1:
        enhanced += ".99"
    return SmtpAnswer(int(reply), enhanced or None, "")


@pytest.mark.parametrize("stage", AFTER_THE_TARGET)
@pytest.mark.parametrize("row", MEANINGS)
def test_every_row_of_the_table_is_followed(row: str, stage: Stage) -> None:
    answer = example(row)
    code = f"{answer.code} {answer.enhanced}" if answer.enhanced else str(answer.code)

    assert classify(answer, stage) == expected(MEANINGS[row], code, answer.text)


@pytest.mark.parametrize("text", ["too many mails", "rate exceeded", "slow down", "over the limit"])
@pytest.mark.parametrize("stage", AFTER_THE_TARGET)
def test_a_policy_that_speaks_of_speed_is_about_the_rate(text: str, stage: Stage) -> None:
    assert classify(SmtpAnswer(450, "4.7.1", text), stage) == expected("rate", "450 4.7.1", text)


@pytest.mark.parametrize(
    ("code", "text", "stage", "meaning"),
    [
        (550, "5.1.1 <x>: unknown", "recipient", "gone"),
        (450, "4.1.1 <x>: unknown for now", "recipient", "target_busy"),
        # The enhanced code wins over the reply code, whatever that one says alone.
        (552, "5.1.1 no such user", "recipient", "gone"),
        (550, "5.3.4 too large", "content", "rejected"),
        (421, "4.2.1 mailbox away", "recipient", "target_busy"),
        # A whole enhanced code wins over its subject, with the reply code or without.
        (454, "4.7.0 try again", "recipient", "busy"),
        (530, "5.7.0 must log in", "recipient", "credentials"),
        (554, "5.7.0 refused", "content", "rejected"),
        # What the table does not know goes by the reply code, then by its class.
        (535, "5.7.139 unsuccessful", "recipient", "credentials"),
        (550, "5.7.26 not authenticated", "content", "rejected"),
        (499, "4.9.9 odd", "recipient", "busy"),
        (599, "5.9.9 odd", "recipient", "rejected"),
        (550, "mailbox unavailable", "recipient", "rejected"),
        (450, "mailbox unavailable", "recipient", "target_busy"),
        (252, "cannot say", "recipient", "busy"),
        # The same code, of pace and of greylisting.
        (450, "4.7.1 too many connections", "recipient", "rate"),
        (451, "4.7.1 Rate limited", "recipient", "rate"),
        (451, "4.7.1 Greylisted, operate again later", "recipient", "target_busy"),
        (421, "4.7.28 unusual", "recipient", "rate"),
        # An enhanced code of another class is none.
        (550, "2.1.1 confused", "recipient", "rejected"),
        (450, "5.1.1 confused", "recipient", "target_busy"),
        # Before the target is named it cannot be at fault.
        (550, "5.1.1 unknown", "sender", "setup"),
        (550, "5.7.1 refused", "sender", "setup"),
        (554, "5.7.1 your address is blocked", "hello", "setup"),
        (450, "4.2.1 wait", "sender", "busy"),
        (421, "4.3.2 down", "hello", "busy"),
        (421, "4.7.0 too many connections", "hello", "rate"),
        (554, "5.7.1 who are you", "login", "credentials"),
        (535, "5.7.8 no", "login", "credentials"),
        (454, "4.7.0 not now", "login", "busy"),
        # The message's own size and addresses are told with the sender.
        (552, "5.3.4 too large", "sender", "rejected"),
        (552, "too large", "sender", "rejected"),
        (550, "5.6.7 SMTPUTF8 needed", "sender", "rejected"),
    ],
)
def test_answers_are_read_by_their_best_row(code: int, text: str, stage: Stage, meaning: Meaning) -> None:
    answer = read_answer(code, text)
    name = f"{code} {answer.enhanced}" if answer.enhanced else str(code)

    assert classify(answer, stage) == expected(meaning, name, answer.text)


@given(st.integers(200, 599), st.text(), st.sampled_from(STAGES))
def test_every_answer_means_something(code: int, text: str, stage: Stage) -> None:
    assert isinstance(classify(read_answer(code, text), stage), Retry | Defer | Rejected | Gone)


@given(
    st.integers(400, 599),
    st.from_regex(r"[45]\.[0-9]{1,2}\.[0-9]{1,2} [a-z ]*", fullmatch=True),
    st.sampled_from(BEFORE_THE_TARGET),
)
def test_no_address_is_lost_to_an_answer_that_came_before_it_was_named(
    code: int, text: str, stage: Stage
) -> None:
    outcome = classify(read_answer(code, text), stage)

    assert not isinstance(outcome, Gone)
    if isinstance(outcome, Retry):
        assert outcome.speaks_against == "provider"


def test_the_stand_in_answers_with_codes_that_the_table_can_read() -> None:
    for code in REFUSALS:
        reply, _, enhanced = code.partition(" ")
        assert read_answer(int(reply), f"{enhanced} x") == SmtpAnswer(int(reply), enhanced, "x")


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("<ada.l@example.org>: no such user", "<[address]>: no such user"),
        ("ADA.L@EXAMPLE.ORG unknown", "[address] unknown"),
        ("user ada.l unknown at mx1.example.org", "user [address] unknown at mx1.[address]"),
        ("bounce+ada.l=example.org@relay.example", "bounce+[address]=[address]"),
        ("forwarded to <bob@elsewhere.example>", "forwarded to <[address]>"),
        ("two\nlines\r\n and\x00 a\x1b[31m tab\t", "two lines and a [31m tab"),
        ("bytes \udcff that were no UTF-8", "bytes that were no UTF-8"),
        ("AUTH PLAIN pa55word", "AUTH PLAIN [secret]"),
        ("Canada and adal are other words", "Canada and adal are other words"),
    ],
)
def test_a_text_is_kept_without_what_must_not_be_told(text: str, kept: str) -> None:
    assert redact(text, addresses=["ada.l@example.org"], secrets=["pa55word"]) == kept


def test_a_long_text_is_cut() -> None:
    assert len(redact("word " * 1_000)) <= LONGEST_DETAIL


@given(
    st.from_regex(r"[a-z][a-z0-9._+]{3,12}@[a-z]{4,8}\.(org|example)", fullmatch=True),
    st.lists(st.sampled_from(["<", ">", ": ", " ", "(", ")", "'", "=", ",", "x ", "\n", "@"]), max_size=6),
    st.sampled_from([str.lower, str.upper, str.title]),
)
def test_an_address_is_never_kept_however_it_is_quoted(
    address: str, marks: list[str], written: Callable[[str], str]
) -> None:
    text = "".join(f"{mark}{written(address)}" for mark in ["", *marks])

    kept = redact(text, addresses=[address]).lower()

    assert address not in kept
    assert not re.search(rf"(?<![\w.+-]){re.escape(address.partition('@')[0])}(?![\w.+-])", kept)


@pytest.mark.parametrize("row", [row for row in MEANINGS if len(row) > 1])
def test_every_row_of_the_table_is_documented(row: str) -> None:
    page = (Path(__file__).parents[3] / "docs/reference/smtp.md").read_text()
    code = f"{row}.x" if row.rpartition(" ")[2].count(".") == 1 else row

    outcome = OUTCOMES[MEANINGS[row]].outcome
    assert [line for line in page.splitlines() if f"`{code}`" in line and f"| `{outcome}` |" in line]
