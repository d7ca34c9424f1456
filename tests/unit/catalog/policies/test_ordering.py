"""The policy `ordering_group`: what it is read as, and what is wrong with one."""

from pathlib import Path

import pytest

from tocsin.catalog.check import check
from tocsin.catalog.load import load_catalog
from tocsin.domain.errors import CatalogError

TYPE = """\
order_paid:
  version: 1
  category: orders
  channels: [push]
  payload: {type: object}
  policies:
    ordered: true
    ordering_group: orders
"""
PLACE = "types/order_paid.yaml:8"


def catalog(root: Path, declaration: str = TYPE) -> Path:
    files = {"types/order_paid.yaml": declaration}
    files |= {f"templates/order_paid/en/push.{part}.j2": part for part in ("title", "body")}
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return root


def test_an_ordering_group_is_read(tmp_path: Path) -> None:
    policies = load_catalog(catalog(tmp_path)).types["order_paid"].policies

    assert (policies.ordered, policies.ordering_group) == (True, "orders")


def test_an_ordered_type_needs_no_group(tmp_path: Path) -> None:
    root = catalog(tmp_path, TYPE.replace("    ordering_group: orders\n", ""))
    policies = load_catalog(root).types["order_paid"].policies

    assert (policies.ordered, policies.ordering_group) == (True, None)


@pytest.mark.parametrize("name", ["o", "shop.orders_2-eu", "o" * 100])
def test_a_group_is_named_in_small_letters_digits_dots_and_dashes(tmp_path: Path, name: str) -> None:
    root = catalog(tmp_path, TYPE.replace("ordering_group: orders", f"ordering_group: {name}"))

    assert load_catalog(root).types["order_paid"].policies.ordering_group == name


@pytest.mark.parametrize("unordered", ["urgent: true", "ordered: false"])
def test_a_group_of_a_type_that_is_not_ordered_is_a_fault_that_says_what_to_do(
    tmp_path: Path, unordered: str
) -> None:
    root = catalog(tmp_path, TYPE.replace("ordered: true", unordered))

    (fault,) = check(root).faults
    assert (fault.field, fault.code) == (PLACE, "ordering_group")
    assert fault.message == "only ordered types have an ordering group; add ordered: true"
    with pytest.raises(CatalogError, match="add ordered: true"):
        load_catalog(root)


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("Orders", "pattern"),
        ("'7days'", "pattern"),
        ("'orders:eu'", "pattern"),
        ("'my orders'", "pattern"),
        ("''", "pattern"),
        ("'orders\\n'", "pattern"),
        ('"orders\\n"', "pattern"),
        ("o" * 101, "pattern"),
        ("7", "type"),
        ("[orders]", "type"),
        ("null", "type"),
    ],
)
def test_a_group_whose_name_cannot_be_used_is_a_fault_on_its_line(
    tmp_path: Path, name: str, code: str
) -> None:
    found = check(catalog(tmp_path, TYPE.replace("ordering_group: orders", f"ordering_group: {name}"))).faults

    assert [(fault.field, fault.code) for fault in found] == [(PLACE, code)]
