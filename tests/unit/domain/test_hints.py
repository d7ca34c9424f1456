"""Whatever a provider answers, somebody is told what to do about it."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import tocsin
from tocsin.domain.delivery.hints import HINTS, SMTP_HINTS, hint
from tocsin.providers.apns import answers as apns_answers
from tocsin.providers.expo import answers as expo_answers
from tocsin.providers.fcm import answers as fcm_answers
from tocsin.providers.smtp import answers as smtp_answers
from tocsin.providers.webhook import answers as webhook_answers
from tocsin.providers.webpush import answers as webpush_answers

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
    for table in (apns_answers, expo_answers, fcm_answers, webhook_answers, webpush_answers):
        yield from (rule.code for rule in table.RULES)
    yield webpush_answers.KEY_MISMATCH


def codes_in_code() -> Iterator[str]:
    """Find the codes that providers and the engine give of their own."""
    for path in sorted([*(SOURCE / "providers").rglob("*.py"), *(SOURCE / "engine").rglob("*.py")]):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            match node:
                case ast.Call(func=ast.Name(id=name), args=[ast.Constant(value=str(code)), *_]):
                    if name in OUTCOMES:
                        yield code


def written(rule: smtp_answers.Rule) -> str:
    """Write an answer that a rule for mail servers is about, as a delivery keeps its code."""
    if rule.enhanced is None:
        return str(rule.code)
    whole = rule.enhanced if rule.enhanced.count(".") > 1 else f"{rule.enhanced}.0"
    return f"{rule.code or f'{rule.enhanced[0]}50'} {whole}"


@pytest.mark.parametrize("code", sorted({*codes_in_tables(), *codes_in_code()}))
def test_every_code_of_tocsin_and_of_its_providers_has_a_hint(code: str) -> None:
    assert hint(code)


@pytest.mark.parametrize("rule", smtp_answers.RULES, ids=written)
def test_the_hint_about_a_mail_servers_answer_fits_what_is_done(rule: smtp_answers.Rule) -> None:
    advice = hint(written(rule))

    assert advice
    assert {words for words in ADVICE.values() if words and words in advice} == {ADVICE[rule.means]} - {""}


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
    assert hint(code) == SMTP_HINTS[as_for]


@pytest.mark.parametrize(("code", "advice"), [("HTTP_502", "retried"), ("http_302", "check proxies")])
def test_a_status_that_is_in_no_table_is_told_by_its_class(code: str, advice: str) -> None:
    assert advice in str(hint(code))


@pytest.mark.parametrize("code", [None, "", "SOMETHING_NEW", "650", "55", "HTTP_5020"])
def test_nothing_is_said_of_a_code_nobody_knows(code: str | None) -> None:
    assert hint(code) is None


@pytest.mark.parametrize("advice", sorted({*HINTS.values(), *SMTP_HINTS.values()}))
def test_a_hint_is_one_short_line(advice: str) -> None:
    assert len(advice) <= 100
    assert "\n" not in advice
    assert advice.endswith(".")
