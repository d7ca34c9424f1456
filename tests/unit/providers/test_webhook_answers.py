import re
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.domain.delivery.outcome import Gone, Rejected, Retry
from tocsin.providers.webhook.answers import RULES, classify, is_taken

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "webhook.md"


@pytest.mark.parametrize(
    ("status", "outcome", "code", "against"),
    [
        (301, Retry, "redirected", "target"),
        (302, Retry, "redirected", "target"),
        (304, Retry, "redirected", "target"),
        (308, Retry, "redirected", "target"),
        (400, Retry, "endpoint_refused", "target"),
        (401, Retry, "endpoint_refused", "target"),
        (403, Retry, "endpoint_refused", "target"),
        (404, Retry, "endpoint_refused", "target"),
        (408, Retry, "endpoint_refused", "target"),
        (409, Retry, "endpoint_refused", "target"),
        (422, Retry, "endpoint_refused", "target"),
        (429, Retry, "too_many_requests", "target"),
        (500, Retry, "endpoint_failed", "provider"),
        (502, Retry, "endpoint_failed", "provider"),
        (503, Retry, "unavailable", "provider"),
        (504, Retry, "endpoint_failed", "provider"),
        (599, Retry, "endpoint_failed", "provider"),
        (600, Retry, "unreadable_answer", "target"),
        (410, Gone, "endpoint_gone", None),
        (413, Rejected, "payload_too_large", None),
    ],
)
def test_each_status_has_its_meaning(status: int, outcome: type, code: str, against: str | None) -> None:
    said = classify(status, None)

    assert type(said) is outcome
    assert said.code == code
    assert getattr(said, "speaks_against", None) == against
    assert f"answered {status}" in said.detail


@given(st.integers(500, 599), st.timedeltas(timedelta(), timedelta(days=1)))
def test_an_endpoint_that_names_its_time_speaks_for_no_other_of_its_host(
    status: int, wait: timedelta
) -> None:
    said = classify(status, wait)

    assert isinstance(said, Retry)
    assert (said.after, said.speaks_against) == (wait, "target")


def test_who_is_redirected_is_told_what_to_do() -> None:
    assert "register the address that it leads to" in classify(307, None).detail


@given(st.integers(200, 299))
def test_every_success_is_one(status: int) -> None:
    assert is_taken(status)


@given(st.integers(100, 999).filter(lambda status: not 200 <= status < 300))
def test_nothing_but_410_and_413_is_final(status: int) -> None:
    assert not is_taken(status)
    assert isinstance(classify(status, None), Retry) == (status not in {410, 413})


def test_the_page_tells_every_row() -> None:
    told = re.findall(r"^\| ([\d to]+) \| `(\w+)` \| `(\w+)` \|", PAGE.read_text("utf-8"), re.MULTILINE)

    assert told == [
        (
            f"{rule.status.start} to {rule.status.stop - 1}"
            if isinstance(rule.status, range)
            else str(rule.status),
            rule.code,
            rule.outcome,
        )
        for rule in RULES
    ]
