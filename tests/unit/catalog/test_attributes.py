"""Types that declare the attributes of users which their texts read."""

from pathlib import Path

import pytest

from tests.unit.catalog.folders import BODY, GOOD, TITLE, TYPE, folder, found
from tocsin.catalog.check import check
from tocsin.catalog.load import load_catalog

DECLARED = f"""\
{TYPE}  attributes:
    plan: {{type: string, default: free, examples: [pro]}}
    colour: {{enum: [red, green], type: string, default: red}}
    seats: {{type: integer, default: 1, minimum: 1}}
    beta: {{type: boolean, default: false}}
"""
TYPES = "types/order_paid.yaml"
GREETING = "{{ user.attributes.plan }}{{ ' beta' if user.attributes.beta else '' }} {{ number }}"


def with_attributes(root: Path, **files: str) -> Path:
    return folder(root, GOOD | {TYPES: DECLARED} | {BODY: GREETING} | files)


def test_attributes_are_rendered_with_their_defaults(tmp_path: Path) -> None:
    catalog = load_catalog(with_attributes(tmp_path))
    order_paid = catalog.types["order_paid"]

    def body(**attributes: object) -> str:
        return catalog.render(order_paid, "push", "en", {"number": 7}, attributes).parts["body"]

    assert body() == "free 7"
    assert body(plan="pro", beta=True, unknown=["x"]) == "pro beta 7"
    assert body(plan=5, beta="yes") == "free 7"


@pytest.mark.parametrize(
    ("text", "guess"),
    [
        ("{{ user.attributes.pln }}", "did you mean 'plan'?"),
        ("{% if user.attributes['beta2'] is defined %}x{% endif %} y", "did you mean 'beta'?"),
        ("{{ user.attributes.zodiac }}", "declare it there with its type and default"),
    ],
)
def test_a_misspelt_attribute_is_a_fault_with_the_nearest_name(tmp_path: Path, text: str, guess: str) -> None:
    (fault,) = check(with_attributes(tmp_path, **{TITLE: f"Paid\n{text}"})).faults

    assert (fault.field, fault.code) == (f"{TITLE}:2", "unknown_attribute")
    assert guess in fault.message


@pytest.mark.parametrize(
    "text",
    ["{% set a = user.attributes %}{{ a.pln }}", "{{ user.plan }}", "{{ user.attributes.beta }}"],
)
def test_what_the_examples_show_to_fail_is_a_fault(tmp_path: Path, text: str) -> None:
    assert [code for _, code in found(with_attributes(tmp_path, **{TITLE: text}))] in (
        ["undefined"],
        ["not_text"],
    )


def test_a_type_that_declares_none_reads_none(tmp_path: Path) -> None:
    (fault,) = check(folder(tmp_path, GOOD | {TITLE: "{{ user.attributes.plan }}"})).faults

    assert fault.code == "unknown_attribute"
    assert "which are: none; declare it there" in fault.message


def test_a_payload_may_have_a_user_of_its_own(tmp_path: Path) -> None:
    own = TYPE.replace(
        "note: {type: string}",
        "user: {type: object, properties: {attributes: {type: object, properties: {plan: {type: string}}, "
        "required: [plan]}}, required: [attributes]}",
    ).replace("required: [number]", "required: [number, user]")
    files = GOOD | {TYPES: own, TITLE: "{{ user.attributes.plan }}"}

    assert found(folder(tmp_path, files)) == []
    both = own + "  attributes: {plan: {type: string, default: free}}\n"
    assert found(folder(tmp_path, files | {TYPES: both})) == [(f"{TYPES}:9", "attributes")]


@pytest.mark.parametrize(
    ("declared", "code"),
    [
        ("{type: string}", "missing"),
        ("{type: string, default: 5}", "default"),
        ("{type: string, default: pro, pattern: '^free$'}", "default"),
        ("{type: number, default: 1.0e+300}", "default"),
        ("{type: array, default: [1]}", "default"),
        ("{type: object, default: {}}", "enum"),
        ("{type: string, default: x, pattern: '['}", "schema"),
        ("{type: string, default: x, $ref: 'https://example.com/schema'}", "schema"),
    ],
)
def test_a_declaration_has_a_type_and_a_default_that_fits(tmp_path: Path, declared: str, code: str) -> None:
    types = f"{TYPE}  attributes:\n    plan: {declared}\n"

    faults = found(folder(tmp_path, GOOD | {TYPES: types}))

    assert [(field.rpartition(":")[0], fault) for field, fault in faults] == [(TYPES, code)]


@pytest.mark.parametrize(
    ("html", "faults"),
    [
        ("<p>{{ user.attributes.plan }}</p>", []),
        ('<p style="color: {{ user.attributes.colour }}">x</p>', []),
        ('<p style="color: {{ user.attributes.plan }}">x</p>', ["unsafe_html"]),
        ('<a href="{{ user.attributes.plan }}">x</a>', ["unsafe_html"]),
        ("<p>{{ user.attributes.plan | safe }}</p>", ["unsafe_html"]),
    ],
)
def test_in_html_attributes_follow_the_rules_of_payloads(
    tmp_path: Path, html: str, faults: list[str]
) -> None:
    mail = "templates/order_paid/en/email"
    files = {f"{mail}.subject.j2": "Paid", f"{mail}.text.j2": "Paid", f"{mail}.html.j2": html}
    types = DECLARED.replace("[push]", "[push, email]")

    assert [code for _, code in found(with_attributes(tmp_path, **files, **{TYPES: types}))] == faults
