"""FCM's own check of a well-formed message: its target, keys, times and size."""

import re
from typing import Any

import msgspec

from tocsin.sandbox.fcm import errors
from tocsin.sandbox.fcm.schema import TARGETS
from tocsin.sandbox.phones import DEVICE_TARGETS, TargetKind
from tocsin.sandbox.responses import RefusedRequestError

_TOPIC = re.compile(r"[a-zA-Z0-9\-_.~%]+")
_CONDITION = re.compile(r"'[a-zA-Z0-9\-_.~%]+'\s+in\s+topics")
_RESERVED_KEYS = frozenset({"from", "message_type"})
_RESERVED_PREFIXES = ("google.", "gcm.")
_LONGEST_TTL_SECONDS = 2_419_200
_DEVICE_BYTES = 4_096
_TOPIC_BYTES = 2_048


class Target(msgspec.Struct, frozen=True):
    """The recipient of a message."""

    kind: TargetKind
    value: str


def check_message(message: Any, body_bytes: int) -> Target:
    """Return the target of a message; raise RefusedRequestError if FCM would refuse it."""
    target = _target(message)
    for key in message.data or ():
        # Few keys have a dot, which is found faster than a prefix.
        if key in _RESERVED_KEYS or ("." in key and key.startswith(_RESERVED_PREFIXES)):
            raise _invalid(f"Invalid data payload key: {key}", "message.data")
    _check_ttl(message)
    limit = _DEVICE_BYTES if target.kind in DEVICE_TARGETS else _TOPIC_BYTES
    # The payload is a part of the body, so a small body needs no measuring.
    if body_bytes > limit and _payload_bytes(msgspec.to_builtins(message)) > limit:
        raise _invalid(f"Message is too large. The maximum is {limit // 1024}K ({limit} bytes).")
    return target


def _target(message: Any) -> Target:
    for kind in TARGETS:
        value = getattr(message, kind)
        if value is None:
            continue
        if kind in DEVICE_TARGETS:
            if not value:
                raise RefusedRequestError(errors.REFUSALS["INVALID_TOKEN"])
        elif kind == "topic":
            if not _TOPIC.fullmatch(value):
                raise _invalid("Topic name contains invalid characters.", "message")
        elif not _CONDITION.search(value):
            raise RefusedRequestError(errors.CONDITION_INVALID)
        return Target(kind, value)
    raise _invalid("Recipient of the message is not set.", "message")


def _check_ttl(message: Any) -> None:
    ttl = message.android.ttl if message.android else None
    if ttl is not None and not 0 <= float(ttl[:-1]) <= _LONGEST_TTL_SECONDS:
        text = f"Invalid TTL {ttl}: it must be between 0 and {_LONGEST_TTL_SECONDS} seconds."
        raise _invalid(text, "message.android.ttl")
    headers = message.webpush.headers if message.webpush else None
    web_ttl = headers.get("TTL") if headers else None
    if web_ttl is not None and not web_ttl.isdecimal():
        raise _invalid("TTL must be a non-negative integer.", "message.webpush.headers.TTL")


def _invalid(text: str, *fields: str) -> RefusedRequestError:
    return RefusedRequestError(errors.invalid_argument(text, *fields))


def _payload_bytes(message: dict[str, Any]) -> int:
    """Measure the payload of each platform and return the largest."""
    shared = _text_bytes(message.get("data")) + _text_bytes(message.get("notification"))
    platforms = [message.get(name) or {} for name in ("android", "webpush")]
    apns_payload = (message.get("apns") or {}).get("payload")
    return shared + max(
        *(_text_bytes(each.get("data")) + _text_bytes(each.get("notification")) for each in platforms),
        len(msgspec.json.encode(apns_payload)) if apns_payload else 0,
    )


def _text_bytes(fields: dict[str, Any] | None) -> int:
    return sum(len(f"{key}{value}".encode()) for key, value in (fields or {}).items())
