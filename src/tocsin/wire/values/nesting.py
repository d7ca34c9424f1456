"""How deep JSON may be nested: encoders, decoders and other readers of JSON have limits."""

from typing import Any

DEEPEST = 64
"""Levels of a message; DuckDB takes 128."""


def is_too_deep(text: str, decoded: dict[str, Any]) -> bool:
    """Return whether an object is nested deeper than `DEEPEST` levels; `text` is what it was decoded from."""
    # Counting is far cheaper, and enough for almost every message.
    return text.count("[") + text.count("{") > DEEPEST and _depth(decoded) > DEEPEST


def _depth(value: Any) -> int:
    """Return how deep a value is nested, level by level: a message may be as deep as the stack allows."""
    depth, level = 0, [value]
    while level:
        depth += 1
        level = [
            below
            for each in level
            for below in (each.values() if isinstance(each, dict) else each)
            if isinstance(below, dict | list)
        ]
    return depth
