"""A template that only shows fields of the payload is rendered without Jinja, to the same text or fault."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jinja2 import Environment

from tocsin.catalog.templates.jinja import CompiledTemplate, TemplateSource, compile_template
from tocsin.catalog.templates.plain import plain_template

PIECES = (
    "{{ name }}",
    "{{ other }}",
    "{{ name | default('none') }}",
    "{{ other|d('') }}",
    "100 %",
    "%s",
    "{ }",
)
values = st.one_of(st.text(max_size=5), st.integers(), st.booleans(), st.none(), st.floats(), st.just(["a"]))


def compiled(text: str, *, html: bool = False) -> CompiledTemplate:
    template = compile_template(TemplateSource("templates/any.j2", text, html=html))
    assert isinstance(template, CompiledTemplate)
    return template


def by_jinja(text: str) -> CompiledTemplate:
    template = compiled(text)
    template._plain = None
    return template


def result(template: CompiledTemplate, payload: dict[str, Any]) -> str | type[Exception]:
    try:
        return template(payload)
    except Exception as error:  # noqa: BLE001 - whatever Jinja raises
        return type(error)


@given(st.lists(st.sampled_from(PIECES)), st.dictionaries(st.sampled_from(["name", "other"]), values))
def test_the_result_is_the_one_of_jinja(pieces: list[str], payload: dict[str, Any]) -> None:
    text = " ".join(pieces)
    assert plain_template(Environment(autoescape=True).parse(text)) is not None
    assert result(compiled(text), payload) == result(by_jinja(text), payload)


@pytest.mark.parametrize(
    "text",
    [
        "{{ name | upper }}",
        "{{ name | default(other) }}",
        "{{ name | default('', true) }}",
        "{{ name | default(1) }}",
        "{{ name.first }}",
        "{{ name ~ other }}",
        "{% if name %}{{ name }}{% endif %}",
        "{{ self }}",
    ],
)
def test_any_other_template_is_left_to_jinja(text: str) -> None:
    assert plain_template(Environment(autoescape=True).parse(text)) is None


def test_html_is_escaped() -> None:
    assert "<p>&lt;b&gt;</p>" in compiled("<p>{{ name }}</p>", html=True)({"name": "<b>"})
