"""The layout of FlatBuffers tables that have texts and numbers only, packed in one step.

The builder of the library writes a table byte by byte, which costs ten times as much. Where the fields of a
table are stored is learnt from its generated code, which stays the only description of the schema.
"""

import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

FLOATS = (float, int)
"""What fits a number with a fraction."""
_CODES = {
    "Bool": "?", "Byte": "B", "Uint8": "B", "Int8": "b", "Uint16": "H", "Int16": "h", "Uint32": "I",
    "Int32": "i", "Uint64": "Q", "Int64": "q", "Float32": "f", "Float64": "d",
}  # fmt: skip
_TEXT = "s"
_LENGTH = struct.Struct("<I")


class Slot(NamedTuple):
    """Where a field is stored: its number in the table, its type, and the value that is left out."""

    number: int
    code: str
    default: Any

    @property
    def takes(self) -> tuple[type, ...]:
        """The types of JSON values that fit the field; whether one is in range shows when it is packed."""
        match self.code:
            case "s":
                return (str,)
            case "?":
                return (bool,)
            case "f" | "d":
                return FLOATS
            case _:
                return (int,)


class _Layout(NamedTuple):
    """How a table with some of its fields is packed: the order of the fields, and the offsets of texts."""

    whole: struct.Struct
    head: tuple[int, ...]
    order: tuple[int, ...]
    texts: tuple[tuple[int, int], ...]
    """The places of texts among the fields given, and the position in the buffer of each one's offset."""


class _Recorder:
    """Takes the calls of generated code to a builder and notes what is stored where."""

    def __init__(self) -> None:
        self.slots: list[tuple[Slot, Any]] = []

    def CreateString(self, text: str) -> int:  # noqa: N802, ARG002 - the names of the library
        return 1

    def StartObject(self, fields: int) -> None:  # noqa: N802
        pass

    def EndObject(self) -> int:  # noqa: N802
        return 1

    def PrependUOffsetTRelativeSlot(self, number: int, offset: int, default: int) -> None:  # noqa: N802
        self.slots.append((Slot(number, _TEXT, None), None if offset == default else offset))

    def __getattr__(self, name: str) -> Any:
        kind = name.removeprefix("Prepend").removesuffix("Slot")
        if name != f"Prepend{kind}Slot" or kind not in _CODES:
            raise AttributeError(name)

        def prepend(number: int, value: Any, default: Any) -> None:
            self.slots.append((Slot(number, _CODES[kind], default), value))

        return prepend


def find_slot(row: Any, attribute: str) -> Slot | None:
    """Return where generated code stores an attribute of an empty row; None if not as a text or a number."""
    before = getattr(row, attribute)
    setattr(
        row, attribute, not before if isinstance(before, bool) else "text" if before is None else before + 1
    )
    recorder = _Recorder()
    try:
        row.Pack(recorder)
    except Exception:  # noqa: BLE001 - the generated code may raise anything
        return None
    finally:
        setattr(row, attribute, before)
    found = [slot for slot, value in recorder.slots if value is not None and value != slot.default]
    return found[0] if len(found) == 1 else None


class FlatTable:
    """Packs tables with these fields."""

    def __init__(self, slots: Sequence[Slot]) -> None:
        self._slots = slots
        self._layouts: dict[tuple[int, ...], _Layout] = {}

    def pack(self, values: Sequence[Any]) -> bytes:
        """Return the buffer of a table; raise struct.error or OverflowError for a number out of range."""
        slots = self._slots
        kept = tuple([place for place, value in enumerate(values) if value != slots[place].default])
        layout = self._layouts.get(kept) or self._layout(kept)
        given = list(values)
        end = layout.whole.size
        tail: list[bytes] = []
        for place, position in layout.texts:
            text = values[place].encode()
            given[place] = end - position
            padding = 4 - len(text) % 4
            tail += (_LENGTH.pack(len(text)), text, b"\0" * padding)
            end += 4 + len(text) + padding
        fields = [given[place] for place in layout.order]
        return b"".join((layout.whole.pack(*layout.head, *fields), *tail))

    def _layout(self, kept: tuple[int, ...]) -> _Layout:
        """Lay out the offset of the table, its vtable, its fields by size, and the texts behind them."""
        slots = self._slots
        order = sorted(kept, key=lambda place: -_size(slots[place]))
        count = max((slots[place].number for place in kept), default=-1) + 1
        vtable_size = 4 + 2 * count
        # The fields begin after the table's own offset of four bytes, and the largest come first.
        table = 4 + vtable_size
        while (table + 4) % 8:
            table += 2
        position = table + 4
        positions = {}
        codes = ["<I", "H" * (2 + count), "x" * (table - 4 - vtable_size), "i"]
        for place in order:
            positions[place] = position
            codes.append("I" if slots[place].code == _TEXT else slots[place].code)
            position += _size(slots[place])
        entries = [0] * count
        for place, at in positions.items():
            entries[slots[place].number] = at - table
        codes.append("x" * (-position % 4))
        layout = _Layout(
            struct.Struct("".join(codes)),
            # The offset of the table, its vtable, and how far before the table that is.
            (table, vtable_size, position - table, *entries, table - 4),
            tuple(order),
            tuple((place, positions[place]) for place in kept if slots[place].code == _TEXT),
        )
        self._layouts[kept] = layout
        return layout


def _size(slot: Slot) -> int:
    return 4 if slot.code == _TEXT else struct.calcsize(f"<{slot.code}")
