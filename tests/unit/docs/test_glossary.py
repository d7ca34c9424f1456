"""The glossary has every term once and covers the states, reasons and outcomes of the code."""

import re
from itertools import pairwise
from pathlib import Path

import pytest

from tocsin.domain.delivery.reasons import Reason
from tocsin.domain.delivery.states import State
from tools.docs.pages.glossary import TERMS, glossary_page, outcomes

ROOT = Path(__file__).parents[3]
DESIGN_TERMS = (
    "attempt",
    "catalog",
    "circuit breaker",
    "dead letter",
    "delivery",
    "device",
    "intent",
    "lane",
    "lease",
    "notification",
    "ordering group",
    "outcome",
    "receipt",
    "recipient",
    "route id",
    "type",
)
MEANING = re.compile(r"[A-Z`].*\.")
LONGEST_MEANING = 130


def defined() -> list[str]:
    """List what the tables of the page define: terms in bold, names of the code as code."""
    return re.findall(r"^\| (?:\*\*|`)(.+?)(?:\*\*|`) \|", glossary_page(), re.MULTILINE)


def test_each_term_is_defined_once() -> None:
    assert sorted(defined()) == sorted(set(defined()))


def test_terms_are_in_alphabetical_order() -> None:
    names = [term.lower() for term, _ in TERMS]
    assert all(earlier < later for earlier, later in pairwise(names))


@pytest.mark.parametrize(("term", "meaning"), TERMS, ids=[term for term, _ in TERMS])
def test_a_meaning_is_short_and_made_of_sentences(term: str, meaning: str) -> None:
    assert MEANING.fullmatch(meaning), term
    assert len(meaning) <= LONGEST_MEANING, term


def test_states_reasons_and_outcomes_of_the_code_are_covered() -> None:
    assert {*State, *Reason, *(outcome.__name__ for outcome in outcomes())} <= set(defined())


def test_the_terms_of_the_design_are_covered() -> None:
    assert set(DESIGN_TERMS) <= {term for term, _ in TERMS}


@pytest.mark.parametrize("page", ["README.md", "docs/index.md", "mkdocs.yml"])
def test_the_glossary_is_linked(page: str) -> None:
    assert "reference/glossary.md" in (ROOT / page).read_text("utf-8")
