"""What SNS passes on to Apple and to Google for one envelope."""

import hashlib
from collections.abc import Callable
from typing import Any

import msgspec

from tocsin.aws.functions.results import NeverDeliveredError
from tocsin.wire.fisa.envelope import FisaEnvelope

PAYLOAD_BYTES = 4_096
"""The most that Apple and Google take each."""

LONGEST_COLLAPSE_ID = 64
_CUT = "…"
_RESERVED = frozenset({"from", "message_type"})
_RESERVED_STARTS = ("google.", "gcm.")
_encoder = msgspec.json.Encoder()


class PlatformMessage(msgspec.Struct, frozen=True):
    """The `Message` of a publish with `MessageStructure=json`, and its message attributes for Apple."""

    message: str
    attributes: dict[str, dict[str, str]]
    is_cut: bool


def platform_message(envelope: FisaEnvelope) -> PlatformMessage:
    """Build the message of an envelope for every platform.

    A body that is too long is cut. What the app itself reads never is: if that alone is too large, raise
    NeverDeliveredError.
    """
    apple, apple_cut = _fitted(lambda body: _apple(envelope, body), envelope.body or "")
    google, google_cut = _fitted(lambda body: _google(envelope, body), envelope.body or "")
    parts = {
        "default": envelope.body or envelope.title or "",
        "APNS": apple,
        "APNS_SANDBOX": apple,
        "GCM": google,
    }
    attributes = {
        "AWS.SNS.MOBILE.APNS.PUSH_TYPE": "alert",
        "AWS.SNS.MOBILE.APNS.PRIORITY": "10",
        "AWS.SNS.MOBILE.APNS.COLLAPSE_ID": collapse_id(envelope.event_id),
    }
    return PlatformMessage(
        _encoder.encode(parts).decode(),
        {name: {"DataType": "String", "StringValue": value} for name, value in attributes.items()},
        apple_cut or google_cut,
    )


def collapse_id(event_id: str) -> str:
    """Return the id by which a phone replaces a repeat of the same event: the event's own, or its hash."""
    if len(event_id) <= LONGEST_COLLAPSE_ID and event_id.isascii():
        return event_id
    return hashlib.sha256(event_id.encode()).hexdigest()


def _apple(envelope: FisaEnvelope, body: str) -> dict[str, Any]:
    """Build the payload of Apple; the link also stands where apps read it that Tocsin itself sends to."""
    alert = _given(title=envelope.title, body=body)
    return {
        "aps": {"alert": alert, "sound": "default"},
        **_given(deep_link=envelope.deep_link),
        "custom": _given(
            deep_link=envelope.deep_link,
            extras=envelope.extras,
            icon=envelope.icon,
            severity=envelope.severity,
            event_id=envelope.event_id,
            event_type=envelope.event_type,
        ),
    }


def _google(envelope: FisaEnvelope, body: str) -> dict[str, Any]:
    """Build the message of FCM's HTTP v1, as SNS passes it on.

    A tag, unlike a collapse key, has no limit of four a device: a repeat replaces what the phone
    shows, and nothing that waits for an offline phone is lost.
    """
    extras = {_data_name(name): _text(value) for name, value in (envelope.extras or {}).items()}
    data = extras | _given(
        deep_link=envelope.deep_link,
        icon=envelope.icon,
        severity=envelope.severity,
        event_id=envelope.event_id,
        event_type=envelope.event_type,
    )
    tag = collapse_id(envelope.event_id)
    return {
        "fcmV1Message": {
            "message": {
                "notification": _given(title=envelope.title, body=body),
                "data": _given(**data),
                "android": {"priority": "HIGH", "notification": _given(tag=tag, icon=envelope.icon)},
                "apns": {"headers": {"apns-collapse-id": tag}},
            }
        }
    }


def _data_name(name: str) -> str:
    """Return a name that FCM takes: it keeps some for itself."""
    return f"extras_{name}" if name in _RESERVED or name.startswith(_RESERVED_STARTS) else name


def _text(value: object) -> str | None:
    """Return a value as text: FCM takes nothing else."""
    return value if value is None or isinstance(value, str) else _encoder.encode(value).decode()


def _given(**fields: Any) -> dict[str, Any]:
    """Return the fields that have a value."""
    return {name: value for name, value in fields.items() if value not in (None, "", {})}


def _fitted(build: Callable[[str], dict[str, Any]], body: str) -> tuple[str, bool]:
    """Encode a payload with as much of a body as fits; return whether the body was cut."""
    whole = _encoder.encode(build(body))
    if len(whole) <= PAYLOAD_BYTES:
        return whole.decode(), False
    if not body or len(_encoder.encode(build(_CUT))) > PAYLOAD_BYTES:
        raise NeverDeliveredError(
            "payload_too_large", f"{len(whole)} bytes; at most {PAYLOAD_BYTES} are taken"
        )
    fits, too_long = 0, len(body)
    while too_long - fits > 1:
        middle = (fits + too_long) // 2
        if len(_encoder.encode(build(body[:middle] + _CUT))) <= PAYLOAD_BYTES:
            fits = middle
        else:
            too_long = middle
    return _encoder.encode(build(body[:fits] + _CUT)).decode(), True
