"""Versions side by side: old payloads reach the newest texts, or keep their own."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.catalog.catalog import UnknownTypeError
from tocsin.catalog.check import check
from tocsin.catalog.load import load_catalog, shipped_catalog
from tocsin.domain.catalog import Upgrade, upgraded

CHAIN = """\
shipped:
  version: 4
  category: orders
  channels: [push]
  payload:
    type: object
    properties:
      order: {type: string}
      carrier: {type: string}
    required: [order, carrier]
    additionalProperties: false
  data:
    order: "{{ order }}"
  versions:
    3:
      payload:
        type: object
        properties: {order: {type: string}, weight: {type: integer}}
        required: [order]
        additionalProperties: false
      upgrade:
        remove: [weight]
        default: {carrier: post}
    2:
      payload:
        type: object
        properties: {orderId: {type: string}}
        required: [orderId]
        additionalProperties: false
      upgrade:
        rename: {orderId: order}
    1:
      payload:
        type: object
        properties: {text: {type: string}}
        required: [text]
      data:
        text: "{{ text }}"
"""
TEXTS = {
    "shipped": ("Shipped", "{{ order }} by {{ carrier }}"),
    "shipped@1": ("Shipped", "{{ text }}"),
}


def folder(root: Path, declaration: str = CHAIN) -> Path:
    (root / "types").mkdir()
    (root / "types" / "shipped.yaml").write_text(declaration, encoding="utf-8")
    for name, (title, body) in TEXTS.items():
        texts = root / "templates" / name / "en"
        texts.mkdir(parents=True)
        (texts / "push.title.j2").write_text(title, encoding="utf-8")
        (texts / "push.body.j2").write_text(body, encoding="utf-8")
    return root


def test_a_payload_stored_before_a_deployment_still_goes_out() -> None:
    catalog = load_catalog(shipped_catalog())
    stored = {"customerName": "Ali Veli"}
    assert catalog.faults("new_customer", 1, stored) == []
    type_, payload = catalog.resolve("new_customer", 1, stored)
    assert (type_.version, payload) == (2, {"customer_name": "Ali Veli"})
    assert catalog.render(type_, "push", "tr", payload).parts["body"] == "Ali Veli az önce kaydoldu."
    assert stored == {"customerName": "Ali Veli"}


@pytest.mark.parametrize(
    ("version", "payload", "reached", "body", "data"),
    [
        (None, {"order": "A1", "carrier": "DHL"}, 4, "A1 by DHL", {"order": "A1"}),
        (4, {"order": "A1", "carrier": "DHL"}, 4, "A1 by DHL", {"order": "A1"}),
        (3, {"order": "A1", "weight": 3}, 4, "A1 by post", {"order": "A1"}),
        (2, {"orderId": "A1"}, 4, "A1 by post", {"order": "A1"}),
        (1, {"text": "On its way"}, 1, "On its way", {"text": "On its way"}),
    ],
)
def test_a_payload_follows_the_upgrades_as_far_as_they_lead(
    tmp_path: Path,
    version: int | None,
    payload: dict[str, object],
    reached: int,
    body: str,
    data: dict[str, str],
) -> None:
    catalog = load_catalog(folder(tmp_path))
    assert catalog.faults("shipped", version, payload) == []
    type_, current = catalog.resolve("shipped", version, payload)
    assert type_.version == reached
    assert catalog.faults("shipped", reached, current) == []
    content = catalog.render(type_, "push", None, current)
    assert (content.parts["body"], content.data) == (body, data)


def test_versions_are_found(tmp_path: Path) -> None:
    catalog = load_catalog(folder(tmp_path))
    found = [type_.version for number in range(9) if (type_ := catalog.find("shipped", number))]
    assert found == [1, 2, 3, 4]
    assert catalog.find("shipped") is catalog.find("shipped", 4)
    assert catalog.find("shipped", 5) is None
    assert catalog.find("sold") is None
    assert catalog.find("sold", 1) is None


def test_a_version_that_is_gone_cannot_be_resolved(tmp_path: Path) -> None:
    catalog = load_catalog(folder(tmp_path))
    with pytest.raises(UnknownTypeError, match="shipped v9 is not in the catalog"):
        catalog.resolve("shipped", 9, {})
    with pytest.raises(UnknownTypeError, match="sold is not in the catalog"):
        catalog.resolve("sold", None, {})


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ("rename: {orderId: order}", "rename: {order_id: order}", 31, "shipped v2 has no field 'order_id'"),
        ("rename: {orderId: order}", "rename: {orderId: number}", 31, "shipped v3 has no field 'number'"),
        ("rename: {orderId: order}", "default: {order: x}", 30, "payload.orderId is not a known field"),
        ("remove: [weight]", "remove: [height]", 22, "shipped v3 has no field 'height'"),
        ("default: {carrier: post}", "default: {courier: post}", 23, "shipped v4 has no field 'courier'"),
        ("default: {carrier: post}", "default: {carrier: 7}", 21, "payload.carrier 7 is not of type"),
        ("default: {carrier: post}", "default: {}", 21, "payload.carrier is missing"),
        ("remove: [weight]\n", "remove: []\n", 21, "payload.weight is not a known field"),
    ],
)
def test_an_upgrade_that_does_not_fit_is_a_fault(
    tmp_path: Path, old: str, new: str, line: int, message: str
) -> None:
    assert old in CHAIN
    faults = check(folder(tmp_path, CHAIN.replace(old, new))).faults
    assert [fault.field for fault in faults] == [f"types/shipped.yaml:{line}"]
    assert message in faults[0].message


def test_an_upgraded_version_has_no_data_and_no_texts_of_its_own(tmp_path: Path) -> None:
    declaration = CHAIN.replace(
        "        rename: {orderId: order}\n", "        rename: {orderId: order}\n      data: {}\n"
    )
    faults = check(folder(tmp_path, declaration)).faults
    assert [(fault.field, fault.code) for fault in faults] == [("types/shipped.yaml:32", "data")]


def test_a_version_without_an_upgrade_needs_texts_of_its_own(tmp_path: Path) -> None:
    declaration = CHAIN.replace("      upgrade:\n        rename: {orderId: order}\n", "")
    faults = check(folder(tmp_path, declaration)).faults
    assert [fault.field for fault in faults] == [
        "templates/shipped@2/en/push.body.j2:1",
        "templates/shipped@2/en/push.title.j2:1",
    ]


def test_two_fields_can_swap_names() -> None:
    assert upgraded(Upgrade(rename={"a": "b", "b": "a"}), {"a": 1, "b": 2}) == {"a": 2, "b": 1}


@pytest.mark.parametrize("payload", [{"old": 1, "new": 2}, {"new": 2, "old": 1}])
def test_a_renamed_field_wins_whatever_the_order(payload: dict[str, int]) -> None:
    assert upgraded(Upgrade(rename={"old": "new"}), payload) == {"new": 1}


fields = st.sampled_from("abcdef")
payloads = st.dictionaries(fields, st.integers())


@given(payloads, st.sets(fields), payloads)
def test_an_upgrade_removes_fills_in_and_leaves_the_rest(
    payload: dict[str, int], removed: set[str], defaults: dict[str, int]
) -> None:
    before = dict(payload)
    after = upgraded(Upgrade(remove=tuple(removed), default=defaults), payload)
    assert payload == before
    assert after.keys() == (payload.keys() - removed) | defaults.keys()
    for field, value in after.items():
        kept = field in payload and field not in removed
        assert value == (payload[field] if kept else defaults[field])
