"""The fingerprint of an intent: SHA-256 over its canonical JSON (RFC 8785)."""

from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

import msgspec
import rfc8785

from tocsin.domain.intent import Audience, Intent, audience_kind, distinct_users, normal_address
from tocsin.domain.people.locale import normalize

_SAFE_INTEGER = 2**53 - 1
encode_sorted = msgspec.json.Encoder(order="sorted").encode
"""Encodes a JSON value, with the keys of its objects in order."""
_encode = msgspec.json.Encoder().encode
_NULL = b"null"
# The canonical JSON of most intents, whose payloads are encoded already, and of most of these.
_USUAL_CONTENT = (
    b'{"collapse_key":%b,"occurred_at":%b,"payload":%b,"send_at":%b,"ttl_seconds":%b,"type":%b,"users":%b,'
    b'"version":%b}'
)
_SHORT_CONTENT = _USUAL_CONTENT % (_NULL, _NULL, b"%b", _NULL, _NULL, b"%b", b"%b", _NULL)


def intent_fingerprint(intent: Intent, payload: bytes | None = None) -> bytes:
    """Hash the content of an intent; its key and tracing fields do not count.

    `payload` is that of the intent by `encode_sorted`, for a caller that has it.
    """
    audience = intent.audience
    is_usual = intent.send_at_local is None and intent.locale is None and intent.org_id is None
    if is_usual and audience.users is not None and payload is not None and _is_plain(intent.payload):
        key, ttl, version = intent.collapse_key, intent.ttl_seconds, intent.version
        occurred_at, send_at = intent.occurred_at, intent.send_at
        notification_type, users = _encode(intent.type), _encode(sorted(distinct_users(audience.users)))
        if key is None and ttl is None and version is None and occurred_at is None and send_at is None:
            return sha256(_SHORT_CONTENT % (payload, notification_type, users)).digest()
        content = _USUAL_CONTENT % (
            _NULL if key is None else _encode(key),
            _NULL if occurred_at is None else _encode(_instant(occurred_at)),
            payload,
            _NULL if send_at is None else _encode(_instant(send_at)),
            _NULL if ttl is None else _encode(ttl),
            notification_type,
            users,
            _NULL if version is None else _encode(version),
        )
        return sha256(content).digest()
    return _fingerprint_of_any(intent, audience)


def _fingerprint_of_any(intent: Intent, audience: Audience) -> bytes:
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
        return sha256(encode_sorted(content)).digest()
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
        return encode_sorted(value)
    return rfc8785.dumps(value)


def fingerprint(value: Any) -> bytes:
    """Return the SHA-256 hash of a JSON value's canonical form."""
    return sha256(canonical_json(value)).digest()


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
