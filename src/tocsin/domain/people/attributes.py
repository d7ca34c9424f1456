"""Custom attributes of a user: a flat object of the application's own, such as {"plan": "pro"}."""

import math
import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, TypeAlias

import msgspec
from msgspec import Meta

from tocsin.domain.faults import Fault

MOST_ATTRIBUTES = 64
LONGEST_TEXT = 500
MOST_ITEMS = 32
LARGEST_NUMBER = 2**53 - 1
LARGEST_ATTRIBUTES = 4_096
"""How many bytes of JSON the attributes of one user have: a claim reads them with the user."""

NAME_PATTERN = "^[a-z][a-z0-9_]{0,62}$"
_NAME = re.compile(r"[a-z][a-z0-9_]{0,62}")
_LONGEST_SHOWN_NAME = 80
_TEXT_SCHEMA = {"type": "string", "maxLength": LONGEST_TEXT}
_SCHEMA = {
    "maxProperties": MOST_ATTRIBUTES,
    "propertyNames": {"pattern": NAME_PATTERN},
    "additionalProperties": {
        "anyOf": [
            {"type": "boolean"},
            {"type": "number", "minimum": -LARGEST_NUMBER, "maximum": LARGEST_NUMBER},
            _TEXT_SCHEMA,
            {"type": "array", "items": _TEXT_SCHEMA, "maxItems": MOST_ITEMS},
        ]
    },
}

AttributeValue: TypeAlias = bool | int | float | str | list[str]
# The bounds are checked by `attribute_faults`: msgspec misreads a union in which several members have bounds.
Attributes = Annotated[dict[str, AttributeValue], Meta(extra_json_schema=_SCHEMA)]


def attribute_faults(attributes: Mapping[str, Any]) -> list[Fault]:
    """List everything that is wrong with attributes; the field of a fault is the name of the attribute."""
    if len(attributes) > MOST_ATTRIBUTES:
        message = f"has {len(attributes):,} attributes; at most {MOST_ATTRIBUTES} are stored"
        return [Fault(field="", code="too_many", message=message)]
    faults = list(_faults_of_each(attributes))
    if faults:
        return faults
    size = len(msgspec.json.encode(attributes))
    if size > LARGEST_ATTRIBUTES:
        message = f"is {size:,} bytes as JSON; at most {LARGEST_ATTRIBUTES:,} are stored"
        return [Fault(field="", code="too_large", message=message)]
    return []


def name_fault(name: str) -> str | None:
    """Return what is wrong with the name of an attribute, or None."""
    if _NAME.fullmatch(name):
        return None
    return "is no name of an attribute: 1 to 63 of a-z, 0-9 and _, beginning with a letter"


def value_fault(value: Any) -> str | None:
    """Return what is wrong with the value of an attribute, or None."""
    match value:
        case bool():
            return None
        case int() | float():
            return None if math.isfinite(value) and abs(value) <= LARGEST_NUMBER else _NUMBER_RULE
        case str():
            return _text_fault(value)
        case list():
            if len(value) > MOST_ITEMS:
                return f"has {len(value):,} entries; a list has at most {MOST_ITEMS}"
            return next(filter(None, map(_item_fault, value)), None)
        case _:
            return "must be a text, a number, true or false, or a list of texts"


_NUMBER_RULE = f"must be a finite number from -{LARGEST_NUMBER:,} to {LARGEST_NUMBER:,}"


def _faults_of_each(attributes: Mapping[str, Any]) -> Iterator[Fault]:
    for name, value in attributes.items():
        if (message := name_fault(name)) is not None:
            yield Fault(field=ascii(name[:_LONGEST_SHOWN_NAME]), code="invalid", message=message)
        elif (message := value_fault(value)) is not None:
            yield Fault(field=name, code="invalid", message=message)


def _item_fault(item: Any) -> str | None:
    return _text_fault(item) if isinstance(item, str) else "must be a list of texts alone"


def _text_fault(text: str) -> str | None:
    if len(text) > LONGEST_TEXT:
        return f"has {len(text):,} characters; a text has at most {LONGEST_TEXT}"
    if "\x00" in text:
        return "holds a NUL character"
    # A lone surrogate, which no JSON body holds, cannot be stored.
    return None if text.isprintable() or _is_encodable(text) else "holds half of a surrogate pair"


def _is_encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
