"""Building one struct from the fields of another."""

from typing import Any, TypeVar

import msgspec

S = TypeVar("S", bound=msgspec.Struct)


def copy_fields(target: type[S], source: msgspec.Struct, **changes: Any) -> S:
    """Build a struct from the fields of `source` that have the same names, and from `changes`."""
    same = {name: getattr(source, name) for name in target.__struct_fields__ if name not in changes}
    return target(**same, **changes)
