"""Every fault of a catalog is found, with its file and line."""

from pathlib import Path

import pytest

from tests.unit.catalog.folders import BODY, GOOD, TITLE, TYPE, folder, found
from tocsin.catalog.check import TypeReport, VersionReport, check
from tocsin.catalog.load import load_catalog, shipped_catalog
from tocsin.domain.catalog import DEFAULT_BACKOFF
from tocsin.domain.errors import CatalogError


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


def test_a_file_may_declare_several_types(tmp_path: Path) -> None:
    another = TYPE.replace("order_paid", "order.sent")
    files = {name.replace("order_paid", "order.sent"): text for name, text in GOOD.items() if "j2" in name}
    catalog = load_catalog(folder(tmp_path, {**GOOD, **files, "types/order_paid.yaml": TYPE + another}))
    assert set(catalog.types) == {"order_paid", "order.sent"}


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
    assert report.faults == report.warnings == ()
    assert report.types == (
        TypeReport(
            name="announcement",
            category="announcements",
            channels=("inbox",),
            versions=(VersionReport(version=1, upgrades=False, locales={"inbox": ("en",)}),),
        ),
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


def test_examples_that_look_like_personal_data_are_warned_of_where_they_are_pushed(tmp_path: Path) -> None:
    declared = """
{name}:
  version: 1
  category: work
  channels: [push, email]
  audiences: {audiences}
  payload:
    type: object
    properties:
      contact: {{type: object, properties: {{mail: {{type: string, format: email}}}}}}
      phone: {{type: string, examples: ["+4915123456789"]}}
      note: {{type: string, examples: [Looks good]}}
"""
    report = check(
        folder(
            tmp_path,
            {
                "types/a.yaml": declared.format(name="pushed", audiences="{users: [push, email]}"),
                "types/b.yaml": declared.format(name="mailed", audiences="{users: [email]}"),
            },
        )
    )

    assert [(each.field, each.code) for each in report.warnings] == [
        ("pushed v1 payload.phone", "personal_data"),
        ("pushed v1 payload.contact.mail", "personal_data"),
    ]
    assert "4915" not in str(report.warnings)
