"""The fingerprint of an intent: SHA-256 over its canonical JSON (RFC 8785)."""

import hashlib
from typing import Any

import msgspec
import rfc8785

_SAFE_INTEGER = 2**53 - 1
_sorted_encoder = msgspec.json.Encoder(order="sorted")


def canonical_json(value: Any) -> bytes:
    """Encode a JSON value in the canonical form of RFC 8785.

    For a value without floats, large integers and non-ASCII keys, msgspec's sorted output already is
    canonical, at a fiftieth of the cost.
    """
    if _is_plain(value):
        return _sorted_encoder.encode(value)
    return rfc8785.dumps(value)


def fingerprint(value: Any) -> bytes:
    """Return the SHA-256 hash of a JSON value's canonical form."""
    return hashlib.sha256(canonical_json(value)).digest()


def _is_plain(value: Any) -> bool:
    value_type = type(value)
    if value_type is str or value_type is bool or value is None:
        return True
    if value_type is int:
        return bool(-_SAFE_INTEGER <= value <= _SAFE_INTEGER)
    if value_type is dict:
        return all(key.isascii() and _is_plain(item) for key, item in value.items())
    if value_type is list:
        return all(map(_is_plain, value))
    return False
