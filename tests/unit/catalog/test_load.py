"""Every fault of a catalog is found, with its file and line."""

from pathlib import Path

import pytest

from tocsin.catalog.check import TypeReport, VersionReport, check
from tocsin.catalog.load import load_catalog, shipped_catalog
from tocsin.domain.catalog import DEFAULT_BACKOFF
from tocsin.domain.delivery.backoff import parse_backoff
from tocsin.domain.errors import CatalogError

TYPE = """\
order_paid:
  version: 1
  category: orders
  channels: [push]
  payload:
    type: object
    properties:
      number: {type: integer}
      note: {type: string}
    required: [number]
"""
TITLE = "templates/order_paid/en/push.title.j2"
BODY = "templates/order_paid/en/push.body.j2"
GOOD = {"types/order_paid.yaml": TYPE, TITLE: "Paid\n", BODY: "Order {{ number }} is paid.\n"}


def folder(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return root


def found(root: Path) -> list[tuple[str, str]]:
    return [(fault.field, fault.code) for fault in check(root).faults]


def test_a_good_catalog_has_no_faults(tmp_path: Path) -> None:
    catalog = load_catalog(folder(tmp_path, GOOD))
    type_ = catalog.types["order_paid"]
    assert (type_.version, type_.category, type_.channels, type_.default_locale) == (
        1,
        "orders",
        ("push",),
        "en",
    )
    assert type_.policies.backoff == DEFAULT_BACKOFF
    assert type_.policies.attempts_for("push") == 5


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


def test_a_file_may_declare_several_types(tmp_path: Path) -> None:
    another = TYPE.replace("order_paid", "order.sent")
    files = {name.replace("order_paid", "order.sent"): text for name, text in GOOD.items() if "j2" in name}
    catalog = load_catalog(folder(tmp_path, {**GOOD, **files, "types/order_paid.yaml": TYPE + another}))
    assert set(catalog.types) == {"order_paid", "order.sent"}


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
        TYPE.replace("[push]", "[push, inbox]"),
        [("types/order_paid.yaml:4", "enum")],
        id="channel that is not built",
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
        'channels[1]: "sms" is not one of: push, email, webhook',
        id="unknown channel",
    ),
    pytest.param(
        TYPE.replace("[push]", "[push, inbox]"),
        'channels[1]: "inbox" is not one of: push, email, webhook',
        id="channel that is not built",
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


def test_an_unknown_filter_lists_the_filters(tmp_path: Path) -> None:
    (fault,) = check(folder(tmp_path, {**GOOD, BODY: "{{ number | shout }}"})).faults
    assert fault.message.startswith("no filter named 'shout'; the filters are: abs, ")
    assert " number, " in fault.message
    assert " upper, " in fault.message


TEMPLATE_FAULTS = [
    pytest.param("One\n{{ number", 2, "syntax", id="broken"),
    pytest.param("x\n{% if number %}\nx", 2, "syntax", id="block left open"),
    pytest.param("{{ number | shout }}", 1, "syntax", id="unknown filter"),
    pytest.param(
        "a\n{% if number > 9 %}{{ number | shout }}{% endif %}", 2, "syntax", id="filter in a branch"
    ),
    pytest.param("{{ 'x' if number is lucky }}", 1, "syntax", id="unknown test"),
    pytest.param("{% include 'other.j2' %}", 1, "syntax", id="include"),
    pytest.param(
        "a\n{% if number > 99 %}\n{{ nmber }}{% endif %}", 3, "unknown_variable", id="unknown in a branch"
    ),
    pytest.param("{{ range(3) }}", 1, "unknown_variable", id="no globals"),
    pytest.param("a\n\n{{ note }}", 3, "undefined", id="optional without a guard"),
    pytest.param("{{ number.digits }}", 1, "undefined", id="unknown attribute"),
    pytest.param("{{ ''.__class__ }}", 1, "sandbox", id="way out of the sandbox"),
    pytest.param("{{ number.__class__.__mro__ }}", 1, "sandbox", id="way out through a value"),
    pytest.param("{{ [number] }}", 1, "not_text", id="list as text"),
    pytest.param("{{ number > 3 }}", 1, "not_text", id="boolean as text"),
    pytest.param("{{ number + 'x' }}", 1, "render", id="wrong operation"),
    pytest.param("  \n", 1, "blank", id="blank"),
    pytest.param("{% if note is defined %}Note{% endif %}", 1, "blank", id="blank for some"),
]


@pytest.mark.parametrize(("text", "line", "code"), TEMPLATE_FAULTS)
def test_a_fault_in_a_template_is_found_on_its_line(tmp_path: Path, text: str, line: int, code: str) -> None:
    assert found(folder(tmp_path, {**GOOD, BODY: text})) == [(f"{BODY}:{line}", code)]


@pytest.mark.parametrize(
    "text",
    [
        "{% if note is defined %}{{ note }}{% else %}none{% endif %}",
        "{{ note | default('none') }}",
        "{% set shown = note | default('none') %}{{ shown }}",
        "{% for digit in [1, 2] %}{{ loop.index }}{{ digit }}{% endfor %}",
        "{{ [number, 2] | join(', ') }}",
        "{{ 'many' if number > 3 else 'few' }}",
    ],
)
def test_guarded_and_local_names_are_fine(tmp_path: Path, text: str) -> None:
    assert found(folder(tmp_path, {**GOOD, BODY: text})) == []


NESTED = """\
order_paid:
  version: 1
  category: orders
  channels: [push]
  payload:
    type: object
    properties:
      customer:
        type: object
        properties: {name: {type: string}, nick: {type: string}}
        required: [name]
      lines: {type: array, items: {$ref: "#/$defs/line"}}
      gift: {type: boolean}
      size: {enum: [small, large]}
      voucher: {type: [string, "null"]}
    required: [customer, lines, gift, size, voucher]
    $defs:
      line:
        type: object
        properties: {title: {type: string}, count: {type: integer, minimum: 2}}
        required: [title]
"""


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("{{ customer.name }}", None),
        ("{{ customer.nick }}", "undefined"),
        ("{{ customer.nick or customer.name }}", "undefined"),
        ("{{ customer.nick | default(customer.name) }}", None),
        ("{{ lines[0].title }}", "undefined"),
        ("{% for line in lines %}{{ line.title }}{% else %}-{% endfor %}", None),
        ("-{% for line in lines %}{{ line.count }}{% endfor %}", "undefined"),
        ("{{ size }}{% if gift %}{{ customer.oops }}{% endif %}", "undefined"),
        ("{{ size }}{% if not gift %}{{ customer.oops }}{% endif %}", "undefined"),
        ("{{ size }}{% if size == 'large' %}{{ customer.oops }}{% endif %}", "undefined"),
        ("{{ voucher }}", "not_text"),
        ("{{ voucher or 'none' }}", None),
        ("{{ customer }}", "not_text"),
    ],
)
def test_templates_are_proven_by_every_shape_of_payload(tmp_path: Path, text: str, code: str | None) -> None:
    files = {**GOOD, "types/order_paid.yaml": NESTED, BODY: text}
    assert found(folder(tmp_path, files)) == ([(f"{BODY}:1", code)] if code else [])


FOLDER_FAULTS = [
    pytest.param({BODY: None}, [(f"{BODY}:1", "missing_part")], id="missing part"),
    pytest.param(
        {TITLE: None, BODY: None},
        [(f"{BODY}:1", "missing_part"), (f"{TITLE}:1", "missing_part")],
        id="missing default locale",
    ),
    pytest.param(
        {"templates/order_paid/tr/push.title.j2": "x"},
        [("templates/order_paid/tr/push.body.j2:1", "missing_part")],
        id="incomplete locale",
    ),
    pytest.param(
        {"templates/order_piad/en/push.title.j2": "x", "templates/order_piad/en/push.body.j2": "x"},
        [("templates/order_piad/en/push.body.j2:1", "stray")],
        id="folder of an unknown type",
    ),
    pytest.param(
        {"templates/order_paid@7/en/push.title.j2": "x"},
        [("templates/order_paid@7/en/push.title.j2:1", "stray")],
        id="folder of an unknown version",
    ),
    pytest.param(
        {"templates/order_paid/tr_TR/push.title.j2": "x"},
        [("templates/order_paid/tr_TR/push.title.j2:1", "name")],
        id="unusual locale",
    ),
    pytest.param(
        {"templates/order_paid/turkish/push.title.j2": "x"},
        [("templates/order_paid/turkish/push.title.j2:1", "name")],
        id="no locale",
    ),
    pytest.param(
        {"templates/order_paid/en/email.text.j2": "x"},
        [("templates/order_paid/en/email.text.j2:1", "name")],
        id="channel the type does not have",
    ),
    pytest.param(
        {"templates/order_paid/en/push.subtitle.j2": "x"},
        [("templates/order_paid/en/push.subtitle.j2:1", "name")],
        id="unknown part",
    ),
    pytest.param(
        {"templates/order_paid/push.title.j2": "x"},
        [("templates/order_paid/push.title.j2:1", "name")],
        id="template outside of a locale",
    ),
    pytest.param({"types/order_sent.json": "{}"}, [("types/order_sent.json:1", "name")], id="no YAML name"),
    pytest.param(
        {"types/second.yaml": TYPE}, [("types/second.yaml:1", "duplicate")], id="type declared twice"
    ),
    pytest.param({"templates/order_paid/en/.DS_Store": "", "README.md": "hello"}, [], id="other files"),
]


@pytest.mark.parametrize(("changes", "expected"), FOLDER_FAULTS)
def test_a_fault_in_the_folder_is_found(
    tmp_path: Path, changes: dict[str, str | None], expected: list[tuple[str, str]]
) -> None:
    files = {name: text for name, text in {**GOOD, **changes}.items() if text is not None}
    assert found(folder(tmp_path, files)) == expected


def test_a_file_that_is_not_utf_8_is_named_with_its_line(tmp_path: Path) -> None:
    folder(tmp_path, GOOD)
    (tmp_path / BODY).write_bytes(b"good\nbad \xff\n")
    assert found(tmp_path) == [(f"{BODY}:2", "unreadable")]


def test_an_empty_folder_is_no_catalog(tmp_path: Path) -> None:
    with pytest.raises(CatalogError, match="at least one file"):
        load_catalog(tmp_path)


def test_every_fault_is_raised_at_once_and_readable(tmp_path: Path) -> None:
    files = {**GOOD, "types/broken.yaml": "a: [", TITLE: "{{ titel }}", BODY: "{{ note }}"}
    with pytest.raises(CatalogError) as raised:
        load_catalog(folder(tmp_path, files))
    assert [fault.field for fault in raised.value.faults] == [
        f"{BODY}:1",
        f"{TITLE}:1",
        "types/broken.yaml:1",
    ]
    text = str(raised.value)
    assert "has 3 faults:" in text
    assert f"{TITLE}:1: 'titel' is not a field of the payload, which has: number, note" in text


def test_the_shipped_catalog_is_complete() -> None:
    report = check(shipped_catalog())
    languages = ("en", "fa", "ko", "tr", "vi")
    assert report.faults == ()
    assert report.types == (
        TypeReport(
            name="invoice_due",
            category="billing",
            channels=("push", "email"),
            versions=(
                VersionReport(
                    version=1, upgrades=False, locales={"push": ("en", "tr"), "email": ("en", "tr")}
                ),
            ),
        ),
        TypeReport(
            name="message",
            category="general",
            channels=("push",),
            versions=(VersionReport(version=1, upgrades=False, locales={"push": ("en",)}),),
        ),
        TypeReport(
            name="new_customer",
            category="customers",
            channels=("push",),
            versions=(
                VersionReport(version=2, upgrades=False, locales={"push": languages}),
                VersionReport(version=1, upgrades=True, locales={}),
            ),
        ),
    )
