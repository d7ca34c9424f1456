"""The fingerprint of an intent: SHA-256 over its canonical JSON (RFC 8785)."""

import hashlib
from datetime import UTC, datetime
from typing import Any

import msgspec
import rfc8785

from tocsin.domain.intent import Audience, Intent, audience_kind, distinct_users, normal_address
from tocsin.domain.people.locale import normalize

_SAFE_INTEGER = 2**53 - 1
_sorted_encoder = msgspec.json.Encoder(order="sorted")


def intent_fingerprint(intent: Intent) -> bytes:
    """Hash the content of an intent; its key and tracing fields do not count."""
    audience = intent.audience
    content: dict[str, Any] = {
        "type": intent.type,
        "version": intent.version,
        "payload": intent.payload,
        "ttl_seconds": intent.ttl_seconds,
        "collapse_key": intent.collapse_key,
        "send_at": _instant(intent.send_at),
        "occurred_at": _instant(intent.occurred_at),
    }
    if intent.send_at_local is not None:
        content["send_at_local"] = intent.send_at_local.isoformat()
    if intent.locale is not None:
        content["locale"] = normalize(intent.locale)
    if intent.org_id is not None:
        content["org_id"] = intent.org_id
    content |= _audience_content(audience)
    # Beside these two there are only texts, small integers and lists of texts, under keys of ASCII.
    if _is_plain(intent.payload) and (audience.attributes is None or _is_plain(audience.attributes)):
        return hashlib.sha256(_sorted_encoder.encode(content)).digest()
    return fingerprint(content)


def _audience_content(audience: Audience) -> dict[str, Any]:
    """Return what counts of an audience: who is listed, or the query and not whom it finds."""
    if audience.users is not None:
        return {"users": sorted(distinct_users(audience.users))}
    if audience.emails is not None:
        return {"emails": sorted(set(map(normal_address, audience.emails)))}
    if audience.attributes is not None:
        return {
            "attributes": {
                name: sorted(set(value)) if isinstance(value, list) else value
                for name, value in audience.attributes.items()
            }
        }
    kind = audience_kind(audience)
    return {kind: getattr(audience, kind)}


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
        # Most values are texts; a generator and a call for each would cost more than the encoding.
        for key, item in value.items():  # noqa: SIM110
            if not (key.isascii() and (type(item) is str or _is_plain(item))):
                return False
        return True
    if value_type is list:
        return all(map(_is_plain, value))
    return False


def _instant(moment: datetime | None) -> str | None:
    return moment.astimezone(UTC).isoformat() if moment else None
