"""The policy `failover`: what it is read as, and what is wrong with one."""

from datetime import timedelta
from pathlib import Path

import pytest

from tocsin.catalog.check import check
from tocsin.catalog.load import load_catalog
from tocsin.domain.catalog import Failover

TYPE = """\
order_paid:
  version: 1
  category: orders
  channels: [push, email]
  payload: {type: object}
  policies:
    failover: {to: email, after: 10m}
"""
LINE = TYPE.count("\n")
TEXTS = {
    "push": ("title", "body"),
    "email": ("subject", "text"),
    "webhook": (),
}


def catalog(root: Path, declaration: str = TYPE, channels: tuple[str, ...] = ("push", "email")) -> Path:
    files = {"types/order_paid.yaml": declaration}
    for channel in channels:
        files |= {f"templates/order_paid/en/{channel}.{part}.j2": part for part in TEXTS[channel]}
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return root


def test_a_failover_is_read(tmp_path: Path) -> None:
    type_ = load_catalog(catalog(tmp_path)).types["order_paid"]

    assert type_.policies.failover == Failover(to="email", after=timedelta(minutes=10))


@pytest.mark.parametrize("after", ["1ms", "7d", "168h"])
def test_the_wait_is_up_to_a_week(tmp_path: Path, after: str) -> None:
    assert check(catalog(tmp_path, TYPE.replace("10m", after))).faults == ()


@pytest.mark.parametrize(
    ("old", "new", "codes"),
    [
        ("10m", "0s", ["failover"]),
        ("10m", "8d", ["failover"]),
        ("10m", "soon", ["failover"]),
        ("to: email", "to: webhook", ["failover"]),
        ("to: email", "to: push", ["failover"]),
        ("to: email", "to: fax", ["enum"]),
        (", after: 10m", "", ["missing"]),
        ("10m}", "10m, twice: true}", ["unknown"]),
        ("10m}", "10m}\n    ttl_seconds: 600", ["failover"]),
        ("10m}", "10m}\n    ttl_seconds: 601", []),
        ("10m}", "10m}\n    digest: {window: 1h}", ["failover"]),
    ],
)
def test_a_failover_that_cannot_work_is_a_fault_on_its_line(
    tmp_path: Path, old: str, new: str, codes: list[str]
) -> None:
    found = check(catalog(tmp_path, TYPE.replace(old, new))).faults

    assert [(fault.field, fault.code) for fault in found] == [
        (f"types/order_paid.yaml:{LINE}", code) for code in codes
    ]


def test_only_a_push_fails_over(tmp_path: Path) -> None:
    root = catalog(tmp_path, TYPE.replace("[push, email]", "[webhook, email]"), ("webhook", "email"))

    assert [fault.code for fault in check(root).faults] == ["failover"]
