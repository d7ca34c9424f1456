"""How a push looks: what the section `push` of a type comes to, and what is wrong with one."""

from pathlib import Path
from typing import Any

import pytest

from tocsin.catalog.catalog import Catalog
from tocsin.catalog.check import check
from tocsin.catalog.load import load_catalog
from tocsin.catalog.templates.jinja import RenderError
from tocsin.domain.delivery.message import DEFAULT_APPEARANCE, PushAppearance
from tocsin.domain.digest import digest_payload

TYPE = """\
order_paid:
  version: 1
  category: orders
  channels: [push, email]
  payload:
    type: object
    properties:
      number: {type: integer}
      unread: {type: string, pattern: "^ ?[0-9]+ ?$", examples: ["3"]}
      photo: {type: string, format: uri}
    required: [number]
"""
SECTION_LINE = TYPE.count("\n") + 2
TEXTS = {f"en/{part}.j2": part for part in ("push.title", "push.body", "email.subject", "email.text")}


def written(root: Path, declaration: str) -> Path:
    files = {"types/order_paid.yaml": declaration} | {
        f"templates/order_paid/{name}": text for name, text in TEXTS.items()
    }
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return root


def catalog(root: Path, *lines: str) -> Catalog:
    return load_catalog(written(root, TYPE + "".join(f"{line}\n" for line in ("  push:", *lines))))


def appearance(made: Catalog, payload: dict[str, Any], channel: Any = "push") -> PushAppearance:
    return made.render(made.types["order_paid"], channel, "en", payload).appearance


def faults(root: Path, *lines: str) -> list[tuple[str, str]]:
    declaration = TYPE + "".join(f"{line}\n" for line in ("  push:", *lines))
    return [(fault.field, fault.code) for fault in check(written(root, declaration)).faults]


def test_every_field_is_written_from_the_payload(tmp_path: Path) -> None:
    made = catalog(
        tmp_path,
        "    push_type: voip",
        "    severity: critical",
        "    image: \"{{ photo | default('') }}\"",
        "    icon: https://example.com/icon.png",
        "    sound: chime.caf",
        "    badge: \"{{ unread | default('') }}\"",
        '    deep_link: "shop://orders/{{ number }}"',
        '    route: "/orders/{{ number }}"',
        "    click_action: OPEN_ORDER",
        "    channel: orders",
        '    analytics_label: "order-{{ number }}"',
    )

    assert appearance(
        made, {"number": 7, "unread": " 12 ", "photo": "https://example.com/7.jpg"}
    ) == PushAppearance(
        push_type="voip",
        severity="critical",
        image="https://example.com/7.jpg",
        icon="https://example.com/icon.png",
        sound="chime.caf",
        badge=12,
        deep_link="shop://orders/7",
        route="/orders/7",
        click_action="OPEN_ORDER",
        channel="orders",
        analytics_label="order-7",
    )


def test_what_comes_out_blank_is_absent(tmp_path: Path) -> None:
    made = catalog(
        tmp_path, "    image: \"{{ photo | default(' ') }}\"", "    badge: \"{{ unread | default('') }}\""
    )

    assert appearance(made, {"number": 7}) == DEFAULT_APPEARANCE


def test_a_badge_may_be_a_plain_number_and_zero(tmp_path: Path) -> None:
    assert appearance(catalog(tmp_path, "    badge: 0"), {"number": 7}).badge == 0


def test_the_fixed_words_need_no_other_field(tmp_path: Path) -> None:
    assert appearance(catalog(tmp_path, "    push_type: background"), {"number": 7}) == PushAppearance(
        push_type="background"
    )


def test_a_badge_may_count_what_a_digest_collected(tmp_path: Path) -> None:
    made = catalog(tmp_path, '    badge: "{{ count }}"', "  policies: {digest: {window: 1h}}")

    assert appearance(made, dict(digest_payload([{"number": 7}, {"number": 8}]))).badge == 2


def test_other_channels_and_types_without_the_section_are_plain(tmp_path: Path) -> None:
    made = catalog(tmp_path / "with", "    sound: chime.caf")
    without = load_catalog(written(tmp_path / "without", TYPE))

    assert appearance(made, {"number": 7}, "email") is DEFAULT_APPEARANCE
    assert appearance(without, {"number": 7}) is DEFAULT_APPEARANCE


@pytest.mark.parametrize("unread", ["three", "-1", "1.5", "100000", "٣", "1 2"])
def test_a_badge_that_is_no_number_fails_without_showing_it(tmp_path: Path, unread: str) -> None:
    made = catalog(tmp_path, "    badge: \"{{ unread | default('') }}\"")

    with pytest.raises(RenderError) as caught:
        appearance(made, {"number": 7, "unread": unread})

    assert str(caught.value) == (
        "order_paid v1 cannot be rendered: push.badge in en: the badge must be a whole number from 0 to 99999"
        f" at types/order_paid.yaml:{SECTION_LINE}"
    )


def test_a_failing_template_is_named_without_the_payload(tmp_path: Path) -> None:
    made = catalog(tmp_path, "    sound: chime.caf", '    route: "/orders/{{ number + 1 }}"')

    with pytest.raises(RenderError, match="TypeError at types/") as caught:
        appearance(made, {"number": "s3cret"})

    assert caught.value.__cause__ is None
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("image: http://example.com/a.png", "value"),
        ("image: /a.png", "value"),
        ("image: 'https:///a.png'", "value"),
        ("image: 'https://[/a.png'", "value"),
        ("image: 'https://example.com/a b.png'", "value"),
        ("image: 'https://example.com/{{ number }}.png'", None),
        ("icon: http://example.com/a.png", "value"),
        ("icon: ic_order", None),
        ("icon: IC-Order", "value"),
        ("deep_link: orders/7", "value"),
        ("deep_link: '//example.com/orders'", "value"),
        ("deep_link: 'shop://orders/{{ number }}'", None),
        ("deep_link: 'https://example.com/orders'", None),
        ("route: orders", "value"),
        ("route: '/orders/{{ number }}'", None),
        ("route: '/orders/ {{ number }}'", "value"),
        ("badge: many", "value"),
        ("badge: '{{ number }}'", None),
        ("badge: 1.5", "type"),
        ("badge: -1", "value"),
        ("analytics_label: 'orders paid'", "value"),
        (f"analytics_label: {'a' * 51}", "value"),
        (f"analytics_label: {'a' * 50}", None),
        ("analytics_label: 'a-b_c.d~e%f'", None),
        ("sound: '{{ nmber }}'", "unknown_variable"),
        ("sound: '{{ unread }}'", "undefined"),
        ("sound: '{{'", "syntax"),
        ("push_type: loud", "enum"),
        ("severity: '{{ number }}'", "value"),
        ("severity: urgent", "pattern"),
        ("colour: red", "unknown"),
    ],
)
def test_a_section_is_proven_line_by_line(tmp_path: Path, line: str, code: str | None) -> None:
    place = f"types/order_paid.yaml:{SECTION_LINE}"
    found = faults(tmp_path, f"    {line}")

    assert found == ([(place, code)] if code else [])


def test_the_fault_shows_what_an_address_came_to(tmp_path: Path) -> None:
    declaration = TYPE + "  push:\n    image: 'http://example.com/{{ number }}.png'\n"
    (fault,) = check(written(tmp_path, declaration)).faults

    assert "https" in fault.message
    assert "'http://example.com/1.png'" in fault.message


def test_a_badge_of_any_text_is_a_fault(tmp_path: Path) -> None:
    declaration = (
        TYPE.replace('pattern: "^ ?[0-9]+ ?$", ', "") + "  push: {badge: \"{{ unread | default('') }}\"}\n"
    )

    assert [fault.code for fault in check(written(tmp_path, declaration)).faults] == ["value"]


def test_a_section_without_the_channel_is_a_fault(tmp_path: Path) -> None:
    declaration = TYPE.replace("[push, email]", "[email]") + "  push:\n    sound: chime.caf\n"
    root = written(tmp_path, declaration)
    for part in ("title", "body"):
        (root / f"templates/order_paid/en/push.{part}.j2").unlink()

    assert [(fault.field, fault.code) for fault in check(root).faults] == [
        (f"types/order_paid.yaml:{SECTION_LINE - 1}", "channel")
    ]


def test_a_link_is_handed_to_the_app_once(tmp_path: Path) -> None:
    declaration = TYPE + "  data:\n    route: home\n    deep_link: x\n  push:\n    route: /home\n"
    found = [(fault.field, fault.code) for fault in check(written(tmp_path, declaration)).faults]

    assert found == [(f"types/order_paid.yaml:{SECTION_LINE}", "reserved")]


def test_a_version_that_upgrades_has_no_look_of_its_own_and_one_that_stays_has(tmp_path: Path) -> None:
    older = "  versions:\n    1:\n      payload: {type: object}\n      push: {sound: old.caf}\n"
    upgrading = older + "      upgrade: {default: {number: 1}}\n"
    newest = TYPE.replace("version: 1", "version: 2") + "  push: {sound: new.caf}\n"

    found = check(written(tmp_path / "upgrading", newest + upgrading)).faults
    assert [(fault.field, fault.code) for fault in found] == [
        (f"types/order_paid.yaml:{SECTION_LINE + 3}", "push")
    ]

    root = written(tmp_path / "staying", newest + older)
    for name, text in TEXTS.items():
        path = root / "templates" / "order_paid@1" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    made = load_catalog(root)
    sounds = [
        made.render(type_, "push", "en", {"number": 1}).appearance.sound
        for version in (1, 2)
        if (type_ := made.find("order_paid", version))
    ]
    assert sounds == ["old.caf", "new.caf"]
