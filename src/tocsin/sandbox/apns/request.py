"""Apple's check of a request: its headers by the rules of each push type, and its payload."""

import re
from typing import Any

import msgspec

from tocsin.sandbox.stand_in import ReceivedRequest

HEADERS = ("apns-topic", "apns-push-type", "apns-priority", "apns-expiration", "apns-id", "apns-collapse-id")

_ID = re.compile(r"[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")
_TOPIC = re.compile(r"[A-Za-z0-9.-]{1,255}")
_TOKEN = re.compile(r"[0-9A-Fa-f]+")
_PUSH_TYPE = re.compile(
    "alert|background|complication|controls|fileprovider|liveactivity|location|mdm|pushtotalk|voip|widgets"
)
_PRIORITIES = frozenset({"1", "5", "10"})
_LONGEST_COLLAPSE_ID = 64
_PAYLOAD_BYTES = 4_096
_VOIP_BYTES = 5_120
_decode = msgspec.json.Decoder(dict[str, Any]).decode


def is_id(text: str) -> bool:
    """Return whether a text is a UUID in its usual form."""
    return _ID.fullmatch(text) is not None


def header_error(token: str, request: ReceivedRequest) -> str | None:
    """Return Apple's reason to refuse the token or a header of a request, if there is one."""
    apns_id, topic, priority, expiration, collapse_id = map(
        request.header, ("apns-id", "apns-topic", "apns-priority", "apns-expiration", "apns-collapse-id")
    )
    push_type = request.header("apns-push-type") or "alert"
    checks = (
        ("MissingDeviceToken", not token),
        ("BadDeviceToken", not _TOKEN.fullmatch(token)),
        ("BadMessageId", apns_id is not None and not is_id(apns_id)),
        ("MissingTopic", not topic),
        ("BadTopic", not _TOPIC.fullmatch(topic or "")),
        ("BadTopic", (topic or "").endswith(".voip") != (push_type == "voip")),
        ("InvalidPushType", not _PUSH_TYPE.fullmatch(push_type)),
        ("BadPriority", priority is not None and priority not in _PRIORITIES),
        # A push that shows nothing may not wake the phone at once.
        ("BadPriority", push_type == "background" and priority != "5"),
        ("BadExpirationDate", expiration is not None and not expiration.isdecimal()),
        ("BadCollapseId", len((collapse_id or "").encode()) > _LONGEST_COLLAPSE_ID),
    )
    return next((reason for reason, fails in checks if fails), None)


def parse_payload(request: ReceivedRequest) -> dict[str, Any] | str:
    """Return the payload, or Apple's reason to refuse it."""
    most = _VOIP_BYTES if request.header("apns-push-type") == "voip" else _PAYLOAD_BYTES
    if len(request.body) > most:
        return "PayloadTooLarge"
    try:
        return _decode(request.body) or "PayloadEmpty"
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return "PayloadEmpty"
