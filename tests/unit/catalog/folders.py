"""Catalog folders with one good type."""

from pathlib import Path

from tocsin.catalog.check import check

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
