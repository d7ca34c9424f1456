"""Numbers that JSON does not have: an encoder writes them as null."""

import math
from collections.abc import Iterator
from itertools import islice
from typing import Any

import msgspec

from tocsin.domain.faults import Fault

MOST_FAULTS = 20
LONGEST_PATH = 200


def non_finite_faults(name: str, value: Any, encoded: bytes) -> list[Fault]:
    """List where a value has NaN or an infinity; `encoded` is the value as JSON, `name` what it is called."""
    if b"null" not in encoded:
        return []
    found = _non_finite(name, msgspec.to_builtins(value))
    return [
        Fault(field=path[:LONGEST_PATH], code="not_finite", message=f"{number} is not a number of JSON")
        for path, number in islice(found, MOST_FAULTS)
    ]


def _non_finite(name: str, value: Any) -> Iterator[tuple[str, float]]:
    """Yield the paths of such numbers in the order of the value; it may be nested deep."""
    waiting = [(name, value)]
    while waiting:
        path, each = waiting.pop()
        match each:
            case float() if not math.isfinite(each):
                yield path, each
            case dict():
                inner = [(f"{path}.{key}" if path else str(key), item) for key, item in each.items()]
                waiting += reversed(inner)
            case list() | tuple():
                waiting += reversed([(f"{path}[{at}]", item) for at, item in enumerate(each)])
