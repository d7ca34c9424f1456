"""What a delivery says: locale, texts, data, and what happens when a template fails."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.catalog.catalog import Catalog
from tocsin.catalog.load import load_catalog, shipped_catalog
from tocsin.catalog.templates.jinja import RenderError
from tocsin.domain.catalog import Channel, Content

SHIPPED = load_catalog(shipped_catalog())
NEW_CUSTOMER = SHIPPED.types["new_customer"]
ALI = {"customer_name": "Ali Veli"}

INVOICE = """\
invoice:
  version: 1
  category: billing
  channels: [push, email, webhook]
  default_locale: tr
  payload:
    type: object
    properties:
      number: {type: integer}
      due: {type: [string, "null"], examples: [tomorrow]}
      about: {}
    required: [number]
  data:
    kind: invoice
    number: "{{ number }}"
    due: "{{ due | default('', true) }}"
"""
ABOUT = "about: {type: object, properties: {name: {type: string}}, required: [name]}"
TEXTS = {
    "push.title": "Fatura",
    "push.body": "{{ number }} {{ due | default('', true) }}\n\n",
    "email.subject": "{{ about.name | default('') if about is defined else '-' }}",
    "email.text": "{{ about.name if about is defined else '-' }} & co",
    "email.html": "<b>{{ about.name if about is defined else '-' }} &amp; co</b>",
}


@pytest.fixture
def invoices(tmp_path: Path) -> Catalog:
    (tmp_path / "types").mkdir()
    (tmp_path / "types" / "invoice.yaml").write_text(INVOICE.replace("about: {}", ABOUT), encoding="utf-8")
    texts = tmp_path / "templates" / "invoice" / "tr"
    texts.mkdir(parents=True)
    for name, text in TEXTS.items():
        (texts / f"{name}.j2").write_text(text, encoding="utf-8")
    return load_catalog(tmp_path)


@pytest.mark.parametrize(
    ("locale", "found", "title", "body"),
    [
        ("en", "en", "New customer", "Ali Veli just signed up."),
        ("en-GB", "en", "New customer", "Ali Veli just signed up."),
        ("tr-TR", "tr", "Yeni müşteri", "Ali Veli az önce kaydoldu."),
        ("tr_TR", "tr", "Yeni müşteri", "Ali Veli az önce kaydoldu."),
        ("ko-KR", "ko", "신규 고객", "Ali Veli 님이 방금 가입했습니다."),
        ("vi", "vi", "Khách hàng mới", "Ali Veli vừa đăng ký."),
        ("de", "en", "New customer", "Ali Veli just signed up."),
        ("not a locale", "en", "New customer", "Ali Veli just signed up."),
        (None, "en", "New customer", "Ali Veli just signed up."),
    ],
)
def test_the_closest_locale_speaks(locale: str | None, found: str, title: str, body: str) -> None:
    content = SHIPPED.render(NEW_CUSTOMER, "push", locale, ALI)
    assert content == Content(found, {"title": title, "body": body}, {"type": "new_customer"})


def test_right_to_left_text_stays_intact() -> None:
    content = SHIPPED.render(NEW_CUSTOMER, "push", "fa-IR", ALI)
    assert content.parts["title"] == "مشتری جدید"
    # The name stands between isolates, so a Latin name does not turn the sentence around.
    assert content.parts["body"] == "مشتری جدیدی به نام \u2068Ali Veli\u2069 ثبت\u200cنام کرد."  # noqa: RUF001 - these letters are meant


@given(st.text(min_size=1, max_size=200))
def test_a_value_is_written_as_it_is(name: str) -> None:
    payload = {"customer_name": name, "customer_id": name}
    assert SHIPPED.faults("new_customer", 2, payload) == []
    content = SHIPPED.render(NEW_CUSTOMER, "push", "en", payload)
    assert content.parts["body"] == f"{name} just signed up."
    assert content.data["customer_id"] == name
    assert payload == {"customer_name": name, "customer_id": name}


def test_a_value_is_never_read_as_a_template() -> None:
    content = SHIPPED.render(NEW_CUSTOMER, "push", "en", {"customer_name": "{{ 7 * 7 }}"})
    assert content.parts["body"] == "{{ 7 * 7 }} just signed up."


def test_blank_data_is_left_out(invoices: Catalog) -> None:
    type_ = invoices.types["invoice"]
    assert invoices.render(type_, "push", None, {"number": 7}).data == {"kind": "invoice", "number": "7"}
    with_due = invoices.render(type_, "push", None, {"number": 7, "due": "monday"})
    assert with_due.data == {"kind": "invoice", "number": "7", "due": "monday"}


def test_only_one_newline_is_taken_from_the_end(invoices: Catalog) -> None:
    type_ = invoices.types["invoice"]
    assert invoices.render(type_, "push", None, {"number": 7, "due": "x"}).parts["body"] == "7 x\n"


def test_only_html_is_escaped(invoices: Catalog) -> None:
    payload = {"number": 7, "about": {"name": "<Ada>"}}
    assert invoices.render(invoices.types["invoice"], "email", "tr", payload).parts == {
        "subject": "<Ada>",
        "text": "<Ada> & co",
        "html": "<html><head></head><body><b>&lt;Ada&gt; &amp; co</b></body></html>",
    }


def test_a_webhook_has_data_and_no_texts(invoices: Catalog) -> None:
    content = invoices.render(invoices.types["invoice"], "webhook", "en", {"number": 7})
    assert content == Content("tr", {}, {"kind": "invoice", "number": "7"})


def test_locales_are_listed_by_channel(invoices: Catalog) -> None:
    assert SHIPPED.locales(NEW_CUSTOMER, "push") == ("en", "fa", "ko", "tr", "vi")
    assert SHIPPED.locales(NEW_CUSTOMER, "email") == ()
    assert invoices.locales(invoices.types["invoice"], "email") == ("tr",)


@pytest.mark.parametrize(
    ("payload", "cause"),
    [
        ({"customer_id": "s3cret"}, "UndefinedError"),
        ({"customer_name": None, "customer_id": "s3cret"}, "NotTextError"),
        ({"customer_name": ["s3cret"]}, "NotTextError"),
    ],
)
def test_a_template_that_fails_names_its_place_and_no_values(payload: dict[str, Any], cause: str) -> None:
    with pytest.raises(RenderError) as raised:
        SHIPPED.render(NEW_CUSTOMER, "push", "tr-TR", payload)
    place = "templates/new_customer/tr/push.body.j2:1"
    assert str(raised.value) == f"new_customer v2 cannot be rendered: body in tr: {cause} at {place}"
    assert raised.value.__context__ is None


@pytest.mark.parametrize(("version", "channel"), [(2, "email"), (1, "push")])
def test_a_delivery_without_texts_is_an_error_and_never_blank(version: int, channel: Channel) -> None:
    type_ = SHIPPED.find("new_customer", version)
    assert type_ is not None
    with pytest.raises(RenderError, match="no texts for this channel"):
        SHIPPED.render(type_, channel, "en", ALI)


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        ({}, [("payload.customer_name", "missing", "is missing")]),
        (
            {"customer_name": 3, "colour": "red", "customer_id": None},
            [
                ("payload.customer_name", "type", '3 is not of type "string"'),
                ("payload.customer_id", "type", 'null is not of type "string"'),
                ("payload.colour", "unknown", "is not a known field"),
            ],
        ),
        (
            {"customer_name": ""},
            [("payload.customer_name", "min_length", '"" is shorter than 1 character')],
        ),
        (
            {"customer_name": {"first": "s3cret"}},
            [("payload.customer_name", "type", 'this object is not of type "string"')],
        ),
        ([1], [("payload", "type", 'this list is not of type "object"')]),
    ],
)
def test_every_fault_of_a_payload_is_named(payload: Any, expected: list[tuple[str, str, str]]) -> None:
    found = [(fault.field, fault.code, fault.message) for fault in SHIPPED.faults("new_customer", 2, payload)]
    assert sorted(found) == sorted(expected)


def test_long_values_and_names_are_clipped() -> None:
    faults = SHIPPED.faults("new_customer", None, {"customer_name": "n" * 900, "f" * 900: 1})
    assert {fault.code for fault in faults} == {"max_length", "unknown"}
    assert all(len(fault.field) < 100 and len(fault.message) < 120 for fault in faults)


def test_an_unknown_type_or_version_is_a_fault() -> None:
    [unknown_type] = SHIPPED.faults("new_costumer", None, {})
    [unknown_version] = SHIPPED.faults("new_customer", 9, {})
    assert (unknown_type.field, unknown_type.code) == ("type", "unknown_type")
    assert (unknown_version.field, unknown_version.code) == ("version", "unknown_version")
    assert "it has: 1, 2" in unknown_version.message
