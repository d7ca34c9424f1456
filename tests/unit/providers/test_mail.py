import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.catalog.load import load_catalog, shipped_catalog
from tocsin.catalog.templates.css import inline_css

MAIL = (
    "<!DOCTYPE html><html><head><style>p { color: #333 } .due { font-weight: bold }"
    "@media (max-width: 600px) { p { font-size: 20px } }</style></head>"
    f"<body>{'<p>Invoice <b class=due>12</b></p>' * 20}</body></html>"
)


def test_rules_are_written_into_the_elements_they_are_about() -> None:
    html = inline_css(
        "<style>p { color: red } .due { font-weight: bold }</style><p>a</p><b class='due'>b</b>"
    )

    assert '<p style="color: red;">a</p>' in html
    assert '<b class="due" style="font-weight: bold;">b</b>' in html
    assert "<style" not in html


def test_an_elements_own_style_wins() -> None:
    html = inline_css("<style>p { color: red; margin: 0 }</style><p style='color: blue'>a</p>")

    assert "color: blue" in html
    assert "color: red" not in html
    assert "margin: 0" in html


def test_rules_for_small_screens_stay_in_the_head() -> None:
    html = inline_css(MAIL)

    assert "@media (max-width: 600px)" in html.partition("<body>")[0]
    assert "color: #333" not in html.partition("<body>")[0]


@pytest.mark.parametrize("scheme", ["file://{path}", "{path}", "https://127.0.0.1:1/style.css"])
def test_no_stylesheet_is_fetched_from_anywhere(tmp_path: Path, scheme: str) -> None:
    path = tmp_path / "style.css"
    path.write_text("p { color: red }")
    link = scheme.format(path=path)

    html = inline_css(f"<link rel='stylesheet' href='{link}'><p>a</p>")

    assert "red" not in html
    assert "<p>a</p>" in html


@pytest.mark.parametrize("text", ["", "no markup", "<style>p {{</style><p>a", "<p>&amp; ü — 한국어 👋</p>"])
def test_whatever_is_given_comes_out_as_a_document(text: str) -> None:
    assert inline_css(text).endswith("</body></html>")


@given(st.text())
def test_no_text_makes_it_fail(text: str) -> None:
    assert inline_css(f"<style>p {{ color: red }}</style><p>{text}</p>")


def test_what_was_escaped_stays_escaped() -> None:
    html = inline_css("<style>p { color: red }</style><p>&lt;script&gt;alert(1)&lt;/script&gt;</p>")

    assert "<script" not in html
    assert "&lt;script&gt;" in html


@pytest.mark.parametrize(
    ("locale", "subject", "due"),
    [
        ("en", "Invoice INV-7 is due on May 17, 2031", "May 17, 2031"),
        ("tr", "INV-7 numaralı fatura: son ödeme günü 17 May 2031", "17 Mayıs 2031"),  # noqa: RUF001 - Turkish
    ],
)
def test_the_shipped_mail_is_whole_in_each_language(locale: str, subject: str, due: str) -> None:
    catalog = load_catalog(shipped_catalog())
    payload = {
        "invoice_number": "INV-7",
        "amount": "129.90",
        "currency": "EUR",
        "due_on": "2031-05-17",
        "pay_url": "https://example.com/pay?a=1&b=2",
    }

    texts = catalog.render(catalog.types["invoice_due"], "email", locale, payload).parts
    html = inline_css(texts["html"])

    assert texts["subject"] == subject
    assert "https://example.com/pay?a=1&b=2" in texts["text"]
    assert 'href="https://example.com/pay?a=1&amp;b=2"' in html
    assert all(due in text for text in (texts["text"], html))
    assert html.count("<style>") == 1
    assert ".amount" not in html


def test_it_costs_little_beside_the_sending_of_a_mail() -> None:
    def microseconds() -> float:
        began = time.process_time()
        for _ in range(100):
            inline_css(MAIL)
        return (time.process_time() - began) / 100 * 1_000_000

    assert min(microseconds() for _ in range(5)) < 1_000
