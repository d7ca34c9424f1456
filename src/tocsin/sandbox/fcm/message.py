"""FCM's own check of a well-formed message: its target, keys, times and size."""

import re
from typing import Any

import msgspec

from tocsin.sandbox.answers import Answer
from tocsin.sandbox.fcm import errors as fcm_errors
from tocsin.sandbox.fcm.schema import TARGETS
from tocsin.sandbox.phones import TargetKind

_TOPIC = re.compile(r"[a-zA-Z0-9\-_.~%]+")
_CONDITION = re.compile(r"'[a-zA-Z0-9\-_.~%]+'\s+in\s+topics")
_RESERVED_KEYS = frozenset({"from", "message_type"})
_RESERVED_PREFIXES = ("google.", "gcm.")
_LONGEST_TTL_SECONDS = 2_419_200
_DEVICE_BYTES = 4_096
_TOPIC_BYTES = 2_048


class Target(msgspec.Struct, frozen=True):
    """Whom a message is for."""

    kind: TargetKind
    value: str


def target_of(message: dict[str, Any]) -> Target | None:
    """Find the one target that is set."""
    for kind in TARGETS:
        value = message.get(kind)
        if value is not None:
            return Target(kind, value)
    return None


def refusal(message: dict[str, Any], target: Target, body_bytes: int) -> Answer | None:
    """Say why FCM will not take a message, if so."""
    return (
        _bad_target(target)
        or _bad_data(message)
        or _bad_time(message)
        or _too_big(message, target, body_bytes)
    )


def _bad_target(target: Target) -> Answer | None:
    match target.kind:
        case "token" | "fid":
            return None if target.value else fcm_errors.INVALID_TOKEN
        case "topic":
            if _TOPIC.fullmatch(target.value):
                return None
            return fcm_errors.invalid_argument("Topic name contains invalid characters.", "message")
        case "condition":
            return None if _CONDITION.search(target.value) else fcm_errors.CONDITION_INVALID


def _bad_data(message: dict[str, Any]) -> Answer | None:
    for key in message.get("data") or ():
        if key in _RESERVED_KEYS or key.startswith(_RESERVED_PREFIXES):
            return fcm_errors.invalid_argument(f"Invalid data payload key: {key}", "message.data")
    return None


def _bad_time(message: dict[str, Any]) -> Answer | None:
    ttl = (message.get("android") or {}).get("ttl")
    if ttl is not None and not 0 <= float(ttl[:-1]) <= _LONGEST_TTL_SECONDS:
        text = f"Invalid TTL {ttl}: it must be between 0 and {_LONGEST_TTL_SECONDS} seconds."
        return fcm_errors.invalid_argument(text, "message.android.ttl")
    headers = (message.get("webpush") or {}).get("headers") or {}
    web_ttl = headers.get("TTL")
    if web_ttl is not None and not web_ttl.isdecimal():
        return fcm_errors.invalid_argument(
            "TTL must be a non-negative integer.", "message.webpush.headers.TTL"
        )
    return None


def _too_big(message: dict[str, Any], target: Target, body_bytes: int) -> Answer | None:
    limit = _DEVICE_BYTES if target.kind in {"token", "fid"} else _TOPIC_BYTES
    # The payload is a part of the body, so a small body needs no measuring.
    if body_bytes <= limit or _payload_bytes(message) <= limit:
        return None
    return fcm_errors.invalid_argument(
        f"Message is too large. The maximum is {limit // 1024}K ({limit} bytes)."
    )


def _payload_bytes(message: dict[str, Any]) -> int:
    """Measure what each platform would be handed and take the largest."""
    shared = _text_bytes(message.get("data")) + _text_bytes(message.get("notification"))
    android = message.get("android") or {}
    webpush = message.get("webpush") or {}
    apns_payload = (message.get("apns") or {}).get("payload")
    return max(
        shared + _text_bytes(android.get("data")) + _text_bytes(android.get("notification")),
        shared + _text_bytes(webpush.get("data")) + _text_bytes(webpush.get("notification")),
        shared + (len(msgspec.json.encode(apns_payload)) if apns_payload else 0),
    )


def _text_bytes(fields: dict[str, Any] | None) -> int:
    if not fields:
        return 0
    texts = ((key, value if isinstance(value, str) else str(value)) for key, value in fields.items())
    return sum(len(key.encode()) + len(value.encode()) for key, value in texts)
