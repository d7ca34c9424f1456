"""Declarations: what they may say, and every fault on its line."""

from pathlib import Path

import pytest

from tests.unit.catalog.folders import BODY, GOOD, TYPE, folder, found
from tocsin.catalog.check import check
from tocsin.catalog.load import load_catalog
from tocsin.domain.delivery.backoff import parse_backoff


def test_policies_are_read(tmp_path: Path) -> None:
    policies = """\
  policies:
    ttl_seconds: 60
    ordered: true
    urgent: true
    critical: true
    attempts: {push: 3}
    backoff: ladder(1m, 5m)
"""
    found_policies = (
        load_catalog(folder(tmp_path, {**GOOD, "types/order_paid.yaml": TYPE + policies}))
        .types["order_paid"]
        .policies
    )
    assert found_policies.ttl_seconds == 60
    assert (found_policies.ordered, found_policies.urgent, found_policies.critical) == (True, True, True)
    assert found_policies.attempts_for("push") == 3
    assert found_policies.backoff == parse_backoff("ladder(1m, 5m)")


@pytest.mark.parametrize("category", ["newComment", "orders", "a-b_7"])
def test_categories_may_be_camel_case(tmp_path: Path, category: str) -> None:
    text = TYPE.replace("category: orders", f"category: {category}")
    catalog = load_catalog(folder(tmp_path, {**GOOD, "types/order_paid.yaml": text}))
    assert catalog.types["order_paid"].category == category


CATEGORY_FIELD = TYPE.replace("category: orders", "category: orders\n  category_field: note")


@pytest.mark.parametrize(
    "schema",
    [
        "{type: string, pattern: '^[a-z][a-zA-Z0-9_-]*$', maxLength: 64, examples: [newComment]}",
        "{enum: [newComment, orders]}",
        "{$ref: '#/$defs/kind'}\n    $defs: {kind: {enum: [orders]}}",
    ],
)
def test_a_payload_field_may_choose_the_category(tmp_path: Path, schema: str) -> None:
    schema, _, definitions = schema.partition("\n")
    text = CATEGORY_FIELD.replace("{type: string}", schema) + (f"{definitions}\n" if definitions else "")
    catalog = load_catalog(folder(tmp_path, {**GOOD, "types/order_paid.yaml": text}))
    chosen, _ = catalog.resolve("order_paid", 1, {"number": 7, "note": "newComment"})
    default, _ = catalog.resolve("order_paid", 1, {"number": 7})
    assert (chosen.category, default.category) == ("newComment", "orders")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (CATEGORY_FIELD, "payload.note must allow the names of categories only"),
        (
            CATEGORY_FIELD.replace("{type: string}", "{type: string, pattern: '^[a-z]+$', examples: [a]}"),
            "payload.note must allow the names of categories only",
        ),
        (
            CATEGORY_FIELD.replace("category_field: note", "category_field: kind"),
            "'kind' is not a field of the payload, which has: number, note",
        ),
    ],
)
def test_a_field_that_allows_other_text_than_categories_is_a_fault(
    tmp_path: Path, text: str, words: str
) -> None:
    (fault,) = check(folder(tmp_path, {**GOOD, "types/order_paid.yaml": text})).faults
    assert (fault.field, fault.code) == ("types/order_paid.yaml:4", "category")
    assert words in fault.message


YAML_FAULTS = [
    pytest.param("order_paid: [", [("types/order_paid.yaml:1", "yaml")], id="broken"),
    pytest.param("", [("types/order_paid.yaml:1", "yaml")], id="empty"),
    pytest.param("a: 1\n---\nb: 2\n", [("types/order_paid.yaml:2", "yaml")], id="two documents"),
    pytest.param("a: 1\nb: \x07\n", [("types/order_paid.yaml:2", "yaml")], id="control character"),
    pytest.param(
        TYPE + "  category: other\n", [("types/order_paid.yaml:11", "duplicate")], id="duplicate key"
    ),
    pytest.param(
        TYPE.replace("orders", "!!python/object/apply:os.getcwd []"),
        [("types/order_paid.yaml:3", "tag")],
        id="arbitrary tag",
    ),
    pytest.param(
        TYPE.replace("orders", "&c orders") + "  default_locale: *c\n",
        [("types/order_paid.yaml:11", "alias")],
        id="alias",
    ),
    pytest.param("? [a]\n: 1\n", [("types/order_paid.yaml:1", "key")], id="key that is no text"),
]

DECLARATION_FAULTS = [
    pytest.param(
        "- order_paid\n", [(f"{BODY}:1", "stray"), ("types/order_paid.yaml:1", "type")], id="a list"
    ),
    pytest.param("7\n", [(f"{BODY}:1", "stray"), ("types/order_paid.yaml:1", "type")], id="a number"),
    pytest.param(
        TYPE.replace("  category: orders\n", "") + "  colour: red\n",
        [("types/order_paid.yaml:1", "missing"), ("types/order_paid.yaml:10", "unknown")],
        id="missing and unknown field",
    ),
    pytest.param(
        TYPE.replace("version: 1", "version: one").replace("[push]", "[push, fax]"),
        [("types/order_paid.yaml:2", "type"), ("types/order_paid.yaml:4", "enum")],
        id="wrong values",
    ),
    pytest.param(
        TYPE.replace("order_paid", "Order Paid"),
        [(f"{BODY}:1", "stray"), ("types/order_paid.yaml:1", "name")],
        id="name",
    ),
    pytest.param(
        TYPE.replace("    type: object\n", "    type: array\n"),
        [("types/order_paid.yaml:6", "const")],
        id="payload that is no object",
    ),
    pytest.param(
        TYPE.replace("type: integer", "type: int").replace("[number]", "number"),
        [("types/order_paid.yaml:8", "schema"), ("types/order_paid.yaml:10", "schema")],
        id="payload schema",
    ),
    pytest.param(
        TYPE.replace("{type: string}", "{type: string, format: tel}"),
        [("types/order_paid.yaml:9", "schema")],
        id="unknown format",
    ),
    pytest.param(
        TYPE.replace("{type: string}", "{$ref: 'https://example.org/note.json'}"),
        [("types/order_paid.yaml:5", "schema")],
        id="remote reference is not fetched",
    ),
    pytest.param(
        TYPE.replace("{type: string}", "{type: string, pattern: '^N-[0-9]+$'}"),
        [("types/order_paid.yaml:9", "no_example")],
        id="no example for a pattern",
    ),
    pytest.param(
        TYPE.replace("{type: integer}", "{type: string, pattern: '^N-[0-9]+$'}"),
        [("types/order_paid.yaml:8", "no_example")],
        id="no example for a required pattern",
    ),
    pytest.param(
        TYPE + "  inbox: {link: /orders}\n",
        [("types/order_paid.yaml:11", "channel")],
        id="section of another channel",
    ),
    pytest.param(TYPE + "  default_locale: EN\n", [("types/order_paid.yaml:11", "locale")], id="locale"),
    pytest.param(
        TYPE + "  policies:\n    backoff: sometimes\n    attempts: {email: 2}\n    ttl_seconds: 10\n",
        [("types/order_paid.yaml:12", "backoff"), ("types/order_paid.yaml:13", "channel")],
        id="policies",
    ),
    pytest.param(
        TYPE + "  policies:\n    ttl_seconds: -1\n    attempts: {push: 0}\n",
        [("types/order_paid.yaml:12", "minimum"), ("types/order_paid.yaml:13", "minimum")],
        id="policies out of range",
    ),
    pytest.param(
        TYPE + "  data:\n    from: us\n    delivery_id: mine\n    google_x: y\n",
        [(f"types/order_paid.yaml:{line}", "reserved") for line in (12, 13, 14)],
        id="reserved data",
    ),
    pytest.param(
        TYPE + "  data:\n    ok: yes\n    number: '{{ numbr }}'\n    note: '{{ note }}'\n    bad: '{{'\n",
        [
            ("types/order_paid.yaml:13", "unknown_variable"),
            ("types/order_paid.yaml:14", "undefined"),
            ("types/order_paid.yaml:15", "syntax"),
        ],
        id="data",
    ),
    pytest.param(
        TYPE + "  versions:\n    2:\n      payload: {type: object}\n",
        [("types/order_paid.yaml:12", "version")],
        id="older version that is newer",
    ),
]


@pytest.mark.parametrize(("text", "expected"), [*YAML_FAULTS, *DECLARATION_FAULTS])
def test_a_fault_in_a_declaration_is_found_on_its_line(
    tmp_path: Path, text: str, expected: list[tuple[str, str]]
) -> None:
    assert found(folder(tmp_path, {**GOOD, "types/order_paid.yaml": text})) == expected


MESSAGES = [
    pytest.param(
        TYPE.replace("type: integer", "type: interger"),
        'payload.properties.number.type: "interger" is not a type; types are string, integer, number, '
        "boolean, array, object, null; did you mean integer?",
        id="misspelt type",
    ),
    pytest.param(
        TYPE.replace("type: integer", "type: [integer, nil]"),
        'payload.properties.number.type: "nil" is not a type; types are string, integer, number, boolean, '
        "array, object, null",
        id="unknown type among others",
    ),
    pytest.param(
        TYPE.replace("type: integer", "type: []"),
        "payload.properties.number.type: a list of types has each of them once, and at least one",
        id="no type",
    ),
    pytest.param(
        TYPE.replace("[push]", "[push, sms]"),
        'channels[1]: "sms" is not one of: push, email, webhook, inbox',
        id="unknown channel",
    ),
    pytest.param(
        TYPE.replace(
            "{type: integer}",
            "{type: object, required: [a], properties: {a: {type: string, pattern: '^N-[0-9]+$'}}}",
        ),
        "no example can be made for payload.number.a; give it `examples:` in the schema",
        id="nested field without an example",
    ),
    pytest.param(
        TYPE + "    not: {}\n",
        "no example can be made for the payload as a whole; give it `examples:` in the schema",
        id="payload without an example",
    ),
]


@pytest.mark.parametrize(("text", "message"), MESSAGES)
def test_one_mistake_is_one_fault_that_says_what_is_allowed(tmp_path: Path, text: str, message: str) -> None:
    (fault,) = check(folder(tmp_path, {**GOOD, "types/order_paid.yaml": text})).faults
    assert fault.message == message
