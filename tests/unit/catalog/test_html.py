"""HTML parts: checked through CSS inlining, and payload values only where escaping protects."""

import time
from pathlib import Path

import pytest

from tocsin.catalog.check import check
from tocsin.catalog.load import load_catalog
from tocsin.catalog.templates import css
from tocsin.catalog.templates.jinja import RenderError

TYPE = """\
offer:
  version: 1
  category: offers
  channels: [email]
  payload:
    type: object
    properties:
      name: {type: string}
      anchor: {type: string, format: uri}
      link: {type: string, format: uri, pattern: "^https://", examples: ["https://example.org/7"]}
      loose: {type: string, pattern: "https://", examples: ["https://example.org/7"]}
      colour: {enum: [red, green]}
      shade: {type: string, pattern: "^#[0-9a-f]{6}$", examples: ["#ff00aa"]}
      width: {type: integer}
      urgent: {type: boolean}
      lines:
        type: array
        items:
          type: object
          properties: {url: {type: string}, page: {type: string, pattern: "^https://x/", examples: [https://x/]}}
          required: [url, page]
    required: [name, anchor, link, loose, colour, shade, width, urgent, lines]
    additionalProperties: false
"""
HTML = "templates/offer/en/email.html.j2"
PAYLOAD = {
    "name": "Ada",
    "anchor": "https://example.org",
    "link": "https://example.org",
    "loose": "https://example.org",
    "colour": "red",
    "shade": "#ff00aa",
    "width": 7,
    "urgent": True,
    "lines": [],
}


def catalog_with(root: Path, html: str) -> Path:
    files = {
        "types/offer.yaml": TYPE,
        "templates/offer/en/email.subject.j2": "Offer",
        "templates/offer/en/email.text.j2": "Offer for {{ name }}",
        HTML: html,
    }
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return root


@pytest.mark.parametrize(
    ("html", "words"),
    [
        pytest.param(
            "<style>p { color: {{ name }} }</style><p>x", "'name' is in a style", id="style element"
        ),
        pytest.param('<p style="color: {{ name }}">x</p>', "'name' is in a style", id="style attribute"),
        pytest.param("<p title={{ name }}>x</p>", "without quotes", id="unquoted attribute"),
        pytest.param("<p title=a{{ name }}>x</p>", "without quotes", id="half of an unquoted attribute"),
        pytest.param("<p title={{ colour }}>x</p>", "without quotes", id="unquoted enum"),
        pytest.param("<p onclick=\"go('{{ name }}')\">x</p>", "event handler", id="event handler"),
        pytest.param('<a href="{{ name }}">x</a>', "any address", id="text as link"),
        pytest.param('<a href="{{ anchor }}">x</a>', "any address", id="uri of any scheme"),
        pytest.param('<a href="{{ loose }}">x</a>', "any address", id="pattern without an anchor"),
        pytest.param('<a href="https://{{ name }}/x">x</a>', "any address", id="host from the payload"),
        pytest.param('<img src="{{ name }}">', "any address", id="source"),
        pytest.param("<IMG SRC='{{ name }}'>", "any address", id="upper case"),
        pytest.param("<p {{ name }}>x</p>", "within a tag", id="attribute's name"),
        pytest.param("<{{ name }}>x", "within a tag", id="tag's name"),
        pytest.param("<script>var n = '{{ name }}'</script>", "in a script", id="script"),
        pytest.param("<!-- {{ name }} --><p>x", "in a comment", id="comment"),
        pytest.param("<p>{{ name | safe }}</p>", "switches escaping off", id="safe"),
        pytest.param(
            "<p>{% autoescape false %}{{ name }}{% endautoescape %}", "remove the block", id="autoescape"
        ),
        pytest.param('<p title="{{ name | tojson }}">x', "may contain markup", id="JSON in an attribute"),
        pytest.param(
            '<p>{% if width > 99 %}<a href="{{ name }}">x</a>{% endif %}',
            "any address",
            id="branch of no example",
        ),
        pytest.param(
            "<p>{% if urgent %}a{% elif width %}b{% else %}{% if width %}c{% else %}"
            '<a href="{{ name }}">x</a>{% endif %}{% endif %}',
            "any address",
            id="nested branch",
        ),
        pytest.param(
            '<p>{% for l in lines %}<a href="{{ l.url }}">x</a>{% endfor %}', "any address", id="loop"
        ),
        pytest.param('<p>{% set u = name %}<a href="{{ u }}">x</a>', "any address", id="assigned"),
        pytest.param('<a href="{{ link if urgent else name }}">x</a>', "any address", id="one of two"),
        pytest.param('<a href="{{ link ~ name }}">x</a>', "any address", id="joined"),
        pytest.param(
            '{% macro m(u) %}<a href="{{ u }}">x</a>{% endmacro %}<p>{{ m(name) }}', "any address", id="macro"
        ),
    ],
)
def test_a_payload_value_where_escaping_does_not_protect_is_a_fault(
    tmp_path: Path, html: str, words: str
) -> None:
    (fault,) = check(catalog_with(tmp_path, f"<!DOCTYPE html>\n{html}")).faults
    assert (fault.field, fault.code) == (f"{HTML}:2", "unsafe_html")
    assert words in fault.message


@pytest.mark.parametrize(
    "html",
    [
        pytest.param("<p title='{{ name }}'>{{ name }}</p>", id="text and a quoted attribute"),
        pytest.param('<a href="{{ link }}">x</a>', id="link with a check"),
        pytest.param('<a href="{{ link | trim }}">x</a>', id="link through a filter"),
        pytest.param(
            '<a href="https://example.org/o/{{ name | urlencode }}?a={{ name }}">x</a>', id="prefix"
        ),
        pytest.param('<a href="mailto:{{ name }}">x</a>', id="mail address"),
        pytest.param('<p style="color: {{ colour }}; width: {{ width }}px">x</p>', id="enum and number"),
        pytest.param('<p style="color: {{ shade }}">x</p>', id="narrow pattern"),
        pytest.param("<p style=\"color: {{ 'red' if urgent else 'black' }}\">x</p>", id="constants"),
        pytest.param("<style>p { color: {{ colour }} }</style><p>x</p>", id="enum in the style element"),
        pytest.param(
            '<a href="{% if urgent %}{{ link }}{% else %}https://example.org/{{ name }}{% endif %}">x</a>',
            id="branches within an attribute",
        ),
        pytest.param('<p>{% for l in lines %}<a href="{{ l.page }}">x</a>{% endfor %}', id="loop"),
        pytest.param(
            "<p>{% for l in lines %}<b class=\"{{ loop.cycle('a', 'b') }}\">{% endfor %}", id="cycle"
        ),
    ],
)
def test_a_payload_value_in_a_safe_place_is_no_fault(tmp_path: Path, html: str) -> None:
    assert check(catalog_with(tmp_path, html)).faults == ()


@pytest.mark.parametrize(
    "html",
    [
        pytest.param("<style>p { color: red }</style><p style='@wrong { a'>x", id="constant"),
        pytest.param("<style>p { color: red }</style><p style='@wrong { a'>{{ name }}", id="template"),
        pytest.param(
            "<style>p { color: red }</style>{% if urgent %}<p style='@wrong { a'>{% endif %}{{ name }}",
            id="branch",
        ),
    ],
)
def test_css_that_cannot_be_inlined_is_a_fault_of_the_catalog(tmp_path: Path, html: str) -> None:
    (fault,) = check(catalog_with(tmp_path, html)).faults
    assert (fault.field, fault.code) == (f"{HTML}:1", "css")
    assert "Invalid @ rule" in fault.message


def test_what_is_rendered_has_its_css_inlined(tmp_path: Path) -> None:
    html = "<style>p { color: red }</style><p>{{ name }}</p>"
    catalog = load_catalog(catalog_with(tmp_path, html))
    content = catalog.render(catalog.types["offer"], "email", "en", PAYLOAD)
    assert '<p style="color: red;">Ada</p>' in content.parts["html"]


def test_css_that_breaks_at_send_time_is_an_error_of_that_message(tmp_path: Path) -> None:
    html = '<style>p { color: red }</style><p style="{{ colour }}: red">x</p>'
    catalog = load_catalog(catalog_with(tmp_path, html))
    # Accepted under an older, wider schema.
    stored = {**PAYLOAD, "colour": "@wrong { a"}
    with pytest.raises(
        RenderError, match=r"offer v1 cannot be rendered: html in en: InlineError at templates/"
    ):
        catalog.render(catalog.types["offer"], "email", "en", stored)


class PanicException(BaseException):
    pass


class Panicking:
    def inline(self, html: str) -> str:
        raise PanicException(html)


LOOPS = {
    "deep": "{% for item in lines %}<div>{% endfor %}{{ name }}",
    "mismatched": "{% for item in lines %}<div></span>{% endfor %}{{ name }}",
    "large": "{% for item in lines %}<p>" + "x" * 1_000 + "</p>{% endfor %}{{ name }}",
    "many rules": "<style>" + "p { x: 1 } " * 500 + "</style>"
    "{% for item in lines %}<p>x</p>{% endfor %}{{ name }}",
}


@pytest.mark.parametrize("html", LOOPS.values(), ids=LOOPS)
def test_html_beyond_all_bounds_is_an_error_of_that_message(tmp_path: Path, html: str) -> None:
    catalog = load_catalog(catalog_with(tmp_path, f"<style>p {{ color: red }}</style>{html}"))
    stored = {**PAYLOAD, "lines": [{"url": "", "page": "https://x/"}] * 30_000}

    started = time.monotonic()
    with pytest.raises(RenderError, match="HtmlUnfitError"):
        catalog.render(catalog.types["offer"], "email", "en", stored)
    assert time.monotonic() - started < 5

    assert catalog.render(
        catalog.types["offer"], "email", "en", {**PAYLOAD, "lines": PAYLOAD["lines"]}
    ).parts["html"]


def test_a_panic_of_the_inliner_is_an_error_of_that_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = load_catalog(catalog_with(tmp_path, "<style>p { color: red }</style><p>{{ name }}</p>"))
    monkeypatch.setattr(css, "_inliner", Panicking())

    with pytest.raises(RenderError, match="HtmlUnfitError"):
        catalog.render(catalog.types["offer"], "email", "en", PAYLOAD)


def test_a_long_table_is_not_deep() -> None:
    rows = "<tr><td><p>x<br><b>y</b>" * 5_000

    assert css.inline_css(f"<table>{rows}</table>").count("<td>") == 5_000
