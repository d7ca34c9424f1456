"""Whatever a provider answers, somebody is told what to do about it."""

import ast
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

import tocsin
from tocsin.domain.delivery.hints import HINTS, SMTP_HINTS, advice, hint, recovery_hint
from tocsin.domain.delivery.states import WAITING, State
from tocsin.providers.registry import BUILT_IN
from tocsin.providers.smtp.answers import MEANINGS

SOURCE = Path(tocsin.__file__).parent
OUTCOMES = {"Retry", "Defer", "Rejected", "Gone"}
ADVICE = {
    "busy": "retried",
    "target_busy": "retried",
    "rate": "retried",
    "credentials": "TOCSIN_SMTP__USERNAME",
    "setup": "TOCSIN_SMTP__SENDER",
    "gone": "suppressed",
    "rejected": "",
}


def codes_in_tables() -> Iterator[str]:
    for entry in BUILT_IN:
        answers = import_module(f"tocsin.providers.{entry.name}.answers")
        yield from (rule.code for rule in getattr(answers, "RULES", ()))


def codes_in_code() -> Iterator[str]:
    """Find the codes that providers and the engine give of their own."""
    for path in sorted([*(SOURCE / "providers").rglob("*.py"), *(SOURCE / "engine").rglob("*.py")]):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            match node:
                case ast.Call(func=ast.Name(id=name), args=[ast.Constant(value=str(code)), *_]):
                    if name in OUTCOMES:
                        yield code


def written(row: str) -> str:
    """Write an answer that a row for mail servers is about, as a delivery keeps its code."""
    reply, _, enhanced = row.rpartition(" ") if " " in row or "." in row else (row, "", "")
    if not enhanced:
        return row if len(row) > 1 else f"{row}98"
    return f"{reply or f'{enhanced[0]}50'} {enhanced if enhanced.count('.') > 1 else f'{enhanced}.0'}"


@pytest.mark.parametrize("code", sorted({*codes_in_tables(), *codes_in_code()}))
def test_every_code_of_tocsin_and_of_its_providers_has_a_hint(code: str) -> None:
    assert hint(code)


@pytest.mark.parametrize("row", MEANINGS, ids=written)
def test_the_hint_about_a_mail_servers_answer_fits_what_is_done(row: str) -> None:
    advice = hint(written(row))

    assert advice
    assert {words for words in ADVICE.values() if words and words in advice} == {ADVICE[MEANINGS[row]]} - {""}


@pytest.mark.parametrize(
    ("code", "as_for"),
    [
        ("550 5.1.1", "5.1.1"),
        ("554 5.7.26", "5.7"),
        ("535 5.7.139", "535"),
        ("552 5.7.0", "5.7"),
        ("552 5.2.2", "5.2.2"),
        ("454 4.7.0", "454 4.7.0"),
        ("451 4.7.1", "4.7"),
        ("499", "4"),
        ("554 5.6.0", "5"),
    ],
)
def test_the_most_exact_part_of_a_mail_servers_code_counts(code: str, as_for: str) -> None:
    assert hint(code) == advice(SMTP_HINTS[as_for])


@pytest.mark.parametrize(("code", "advice"), [("HTTP_502", "retried"), ("http_302", "check proxies")])
def test_a_status_that_is_in_no_table_is_told_by_its_class(code: str, advice: str) -> None:
    assert advice in str(hint(code))


@pytest.mark.parametrize("code", [None, "", "SOMETHING_NEW", "650", "55", "HTTP_5020"])
def test_nothing_is_said_of_a_code_nobody_knows(code: str | None) -> None:
    assert hint(code) is None


@pytest.mark.parametrize("text", sorted({*HINTS.values(), *SMTP_HINTS.values()}))
def test_a_hint_is_one_short_line(text: str) -> None:
    shown = advice(text)

    assert len(shown) <= 100
    assert "\n" not in shown
    assert shown.endswith(".")


@pytest.mark.parametrize("text", sorted({*HINTS.values(), *SMTP_HINTS.values()}))
@pytest.mark.parametrize("state", sorted(set(State) - WAITING))
def test_no_hint_promises_a_retry_of_what_is_settled(text: str, state: State) -> None:
    shown = advice(text, state)

    promises = ("is retried", "is sent later", "automatically", "attempt is spent")
    assert not [words for words in promises if words in shown]
    assert not set("{|}") & set(shown)
    assert ".." not in shown
    assert ("It is not tried again" in shown) == (state is State.DEAD)


@pytest.mark.parametrize("code", [None, "SOMETHING_NEW", "550 5.1.1", "HTTP_502", *HINTS])
def test_every_dead_letter_has_one_line_about_its_recovery(code: str | None) -> None:
    shown = recovery_hint(code, "--code X")

    assert shown.endswith(
        "Once the cause is fixed: `tocsin dead replay --code X`, or a new intent with a new key."
    )
    assert shown.count("replay") == 1
    assert "retried" not in shown
    assert not set("\n{|}") & set(shown)
