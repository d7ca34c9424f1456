"""Apple's check of a request: its headers by the rules of each push type, and its payload."""

import re
import uuid
from typing import Any

import msgspec

from tocsin.sandbox.service import Request

HEADERS = (
    "apns-topic",
    "apns-push-type",
    "apns-priority",
    "apns-expiration",
    "apns-id",
    "apns-collapse-id",
)

_TOPIC = re.compile(r"[A-Za-z0-9.-]{1,255}")
_TOKEN = re.compile(r"[A-Za-z0-9_-]+")
_PUSH_TYPES = frozenset(
    {
        "alert",
        "background",
        "complication",
        "controls",
        "fileprovider",
        "liveactivity",
        "location",
        "mdm",
        "pushtotalk",
        "voip",
        "widgets",
    }
)
_PRIORITIES = frozenset({"1", "5", "10"})
_LONGEST_COLLAPSE_ID = 64
_PAYLOAD_BYTES = 4_096
_VOIP_BYTES = 5_120
_decode = msgspec.json.Decoder(dict[str, Any]).decode


def is_id(text: str) -> bool:
    """Tell whether a text is a UUID in its usual form."""
    try:
        return str(uuid.UUID(text)) == text.lower()
    except ValueError:
        return False


def header_refusal(token: str, request: Request) -> str | None:
    """Give Apple's reason to refuse a request for its token or a header, if there is one."""
    if not token:
        return "MissingDeviceToken"
    if not _TOKEN.fullmatch(token):
        return "BadDeviceToken"
    push_type = request.header("apns-push-type") or "alert"
    return (
        _bad_id(request.header("apns-id"))
        or _bad_topic(request.header("apns-topic"), push_type)
        or _bad_manner(push_type, request.header("apns-priority"))
        or _bad_storing(request.header("apns-expiration"), request.header("apns-collapse-id"))
    )


def read_payload(request: Request) -> dict[str, Any] | str:
    """Read the payload, or give Apple's reason to refuse it."""
    most = _VOIP_BYTES if request.header("apns-push-type") == "voip" else _PAYLOAD_BYTES
    if len(request.body) > most:
        return "PayloadTooLarge"
    try:
        return _decode(request.body) or "PayloadEmpty"
    except msgspec.DecodeError:
        return "PayloadEmpty"


def _bad_id(apns_id: str | None) -> str | None:
    return None if apns_id is None or is_id(apns_id) else "BadMessageId"


def _bad_topic(topic: str | None, push_type: str) -> str | None:
    if not topic:
        return "MissingTopic"
    if not _TOPIC.fullmatch(topic) or topic.endswith(".voip") != (push_type == "voip"):
        return "BadTopic"
    return None


def _bad_manner(push_type: str, priority: str | None) -> str | None:
    if push_type not in _PUSH_TYPES:
        return "InvalidPushType"
    if priority is not None and priority not in _PRIORITIES:
        return "BadPriority"
    # A push that shows nothing may not wake the phone at once.
    return "BadPriority" if push_type == "background" and priority != "5" else None


def _bad_storing(expiration: str | None, collapse_id: str | None) -> str | None:
    if expiration is not None and not expiration.isdecimal():
        return "BadExpirationDate"
    if collapse_id is not None and len(collapse_id.encode()) > _LONGEST_COLLAPSE_ID:
        return "BadCollapseId"
    return None
