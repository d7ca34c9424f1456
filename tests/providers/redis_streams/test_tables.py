"""Events as FlatBuffers: by the code that flatc generated, read back by it too."""

import random
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.providers.redis_streams.rig import TABLES
from tocsin.domain.errors import ProviderSetupError
from tocsin.providers.gateway_stream.tables import Tables
from tocsin.providers.redis_streams.provider import EncodingError

MIXED = "probe.Mixed"


@pytest.fixture(scope="module")
def tables() -> Tables:
    return Tables(str(TABLES))


def encoded(tables: Tables, **payload: Any) -> bytes:
    return tables.encode(MIXED, tuple(payload), payload)


def read(body: bytes, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Read a table back by the generated code."""
    monkeypatch.syspath_prepend(str(TABLES))
    module = __import__(MIXED, fromlist=["Mixed"])
    return module.Mixed.GetRootAs(body, 0)


@pytest.fixture(autouse=True)
def no_probe_is_left_behind() -> Any:
    yield
    for name in [name for name in sys.modules if name.partition(".")[0] == "probe"]:
        del sys.modules[name]


def test_every_kind_of_field_arrives_as_it_was(tables: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    body = encoded(
        tables,
        game_id='مشتری "신규" 👩‍👩‍👧 \\',
        small=255,
        turn_number=-(2**63),
        large=2**64 - 1,
        share=1,
        is_last=True,
        color=1,
        names=["ada", "bob"],
        numbers=[1, -2, 3],
        limit=0,
        **{"class": "first"},
    )

    mixed = read(body, monkeypatch)

    assert mixed.GameId().decode() == 'مشتری "신규" 👩‍👩‍👧 \\'
    assert (mixed.Small(), mixed.TurnNumber(), mixed.Large()) == (255, -(2**63), 2**64 - 1)
    assert (mixed.Share(), mixed.IsLast(), mixed.Color(), mixed.Limit()) == (1.0, True, 1, 0)
    assert [mixed.Names(place).decode() for place in range(mixed.NamesLength())] == ["ada", "bob"]
    assert [mixed.Numbers(place) for place in range(mixed.NumbersLength())] == [1, -2, 3]
    assert mixed.Class_().decode() == "first"
    assert mixed.Inner() is None


TWICE = Tables(str(TABLES)), Tables(str(TABLES))
FLAT = st.fixed_dictionaries(
    {},
    optional={
        "game_id": st.text(),
        "class": st.text(max_size=9),
        "small": st.integers(0, 255),
        "turn_number": st.integers(-(2**63), 2**63 - 1),
        "large": st.integers(0, 2**64 - 1),
        "share": st.floats(width=32, allow_nan=False),
        "is_last": st.booleans(),
        "color": st.integers(0, 1),
        "limit": st.integers(-(2**31), 2**31 - 1),
    },
)


@given(payload=FLAT, order=st.randoms(use_true_random=False))
def test_texts_and_numbers_are_packed_as_the_library_packs_them(
    payload: dict[str, Any], order: random.Random
) -> None:
    """In any order and any subset: a reader finds the same fields, aligned as they must be."""
    names = list(payload)
    order.shuffle(names)
    packed, by_library = TWICE
    form = packed._form(MIXED, tuple(names))
    assert form.flat is not None
    by_library._forms[MIXED, tuple(names)] = form._replace(flat=None)

    bodies = [each.encode(MIXED, tuple(names), payload) for each in (packed, by_library)]

    mine, other = (_fields(packed, body) for body in bodies)
    assert mine == other
    assert len(bodies[0]) <= len(bodies[1]) + 8
    assert len(bodies[0]) % 4 == 0


def _fields(tables: Tables, body: bytes) -> dict[str, Any]:
    """Read every field, those that are not there too, and check where the numbers are."""
    reader = tables._modules[MIXED].Mixed.GetRootAs(body, 0)
    table = reader._tab
    for slot, size in ((8, 8), (10, 8), (12, 4)):
        assert (table.Pos + table.Offset(slot)) % size == 0 or not table.Offset(slot)
    names = ("GameId", "Class_", "Small", "TurnNumber", "Large", "Share", "IsLast", "Color", "Limit")
    return {name: getattr(reader, name)() for name in names}


def test_a_number_without_a_fraction_is_an_integer_however_it_is_written(
    tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A schema takes 12.0 for an integer, and so does whoever reads JSON."""
    body = encoded(tables, turn_number=12.0, small=255.0, numbers=[1.0, -2], limit=3.0, share=2.0)

    mixed = read(body, monkeypatch)

    assert (mixed.TurnNumber(), mixed.Small(), mixed.Limit(), mixed.Share()) == (12, 255, 3, 2.0)
    assert [mixed.Numbers(place) for place in range(mixed.NumbersLength())] == [1, -2]


def test_only_the_fields_of_the_event_go_in(tables: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    body = tables.encode(MIXED, ("game_id",), {"game_id": "g-7", "turn_number": 12, "game_name": "Nova"})

    mixed = read(body, monkeypatch)

    assert (mixed.GameId(), mixed.TurnNumber()) == (b"g-7", 0)
    assert b"Nova" not in body


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("game_id", 7),
        ("game_id", ["g"]),
        ("game_id", {"g": 1}),
        ("game_id", "\ud800"),
        ("small", 256),
        ("small", -1),
        ("small", 1.5),
        ("small", True),
        ("small", "1"),
        ("turn_number", 2**63),
        ("turn_number", -(2**63) - 1),
        ("large", -1),
        ("large", 2**64),
        ("share", "x"),
        ("share", 1e300),
        ("share", False),
        ("is_last", 1),
        ("color", "Green"),
        ("names", "ada"),
        ("names", [1]),
        ("names", {"0": "ada"}),
        ("numbers", [2**31]),
        ("numbers", ["1"]),
        ("limit", 2**31),
        ("limit", "many"),
        ("inner", "text"),
        ("inner", {"text": "x"}),
    ],
)
def test_what_does_not_fit_names_its_field_and_quotes_no_value(
    tables: Tables, field: str, value: Any
) -> None:
    payload = {"game_id": "s3cret", "turn_number": 12} | {field: value}

    with pytest.raises(EncodingError) as caught:
        encoded(tables, **payload)

    kind = type(value).__name__
    assert str(caught.value) == f"the field {field} of {MIXED} cannot hold this {kind}"


@pytest.mark.parametrize("payload", [{}, {"game_id": None}])
def test_a_field_that_is_missing_is_named(tables: Tables, payload: dict[str, Any]) -> None:
    with pytest.raises(EncodingError, match=f"the field game_id of {MIXED} is missing"):
        tables.encode(MIXED, ("game_id",), payload)


@pytest.mark.parametrize(
    ("table", "field", "message"),
    [
        ("probe.Missing", "game_id", "gateway_stream.tables has no table probe.Missing"),
        ("probe.Mixed", "gameid", "the table probe.Mixed has no field gameid"),
        ("probe.Color", "game_id", "the code of probe.Color was generated without --gen-object-api"),
    ],
)
def test_a_table_or_field_that_is_not_there_is_named(
    tables: Tables, table: str, field: str, message: str
) -> None:
    with pytest.raises(EncodingError, match=message):
        tables.encode(table, (field,), {field: "x"})


def test_the_folder_is_importable_by_nobody_else_afterwards() -> None:
    before = list(sys.path)

    Tables(str(TABLES))

    assert sys.path == before
    assert not [name for name in sys.modules if name.partition(".")[0] == "probe"]


def test_a_package_that_is_importable_serves_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(TABLES))

    assert Tables("probe").encode(MIXED, ("game_id",), {"game_id": "g-7"})


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (None, "has no code that flatc generated"),
        ("raise RuntimeError('broken')", "Broken cannot be imported: RuntimeError: broken"),
    ],
)
def test_a_folder_without_usable_code_stops_the_start(tmp_path: Path, code: str | None, message: str) -> None:
    if code is not None:
        (tmp_path / "Broken.py").write_text(code)

    with pytest.raises(ProviderSetupError, match=message):
        Tables(str(tmp_path))


def test_a_package_that_is_not_there_stops_the_start() -> None:
    with pytest.raises(ProviderSetupError, match="no_such_tables cannot be imported"):
        Tables("no_such_tables")
