"""What a device's token must look like, by its provider."""

import re
from base64 import urlsafe_b64decode
from typing import Literal, assert_never
from urllib.parse import urlsplit

import msgspec

from tocsin.domain.people.devices import ProviderName

TokenKind = Literal["token", "fid"]
USUAL_KIND: TokenKind = "token"

_EXPO = re.compile(r"Expo(?:nent)?PushToken\[[^\[\]\s]+\]")
# It becomes a part of a path. Apple promises no length, and names no alphabet beyond its hexadecimal today.
_APNS = re.compile(r"[0-9a-zA-Z_\-]+")
_POINT_BYTES = 65
_UNCOMPRESSED = b"\x04"
_AUTH_BYTES = 16


class _Keys(msgspec.Struct, frozen=True):
    p256dh: str
    auth: str


class _Subscription(msgspec.Struct, frozen=True):
    endpoint: str
    keys: _Keys


_subscription = msgspec.json.Decoder(_Subscription)


def token_fault(provider: ProviderName, token: str) -> str | None:
    """Say what is wrong with a token, without quoting it; the lengths of most are their provider's affair."""
    match provider:
        case "expo":
            return None if _EXPO.fullmatch(token) else "must be an Expo push token: ExponentPushToken[…]"
        case "webpush":
            return _subscription_fault(token)
        case "apns":
            return None if _APNS.fullmatch(token) else "must be a device token of Apple's in hexadecimal"
        case "fcm" | "sns":
            return None
        case _:
            assert_never(provider)


def kind_fault(provider: ProviderName, kind: TokenKind) -> str | None:
    """Say what is wrong with a kind of token: FCM alone knows an installation by its id."""
    if kind == "fid" and provider != "fcm":
        return f"only fcm knows installations by their fid; {provider} takes a token"
    return None


def _subscription_fault(token: str) -> str | None:
    try:
        subscription = _subscription.decode(token)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return "must be a push subscription as JSON, with endpoint, keys.p256dh and keys.auth"
    if not _is_https(subscription.endpoint):
        return "must be a push subscription whose endpoint is an https address"
    point, auth = _decoded(subscription.keys.p256dh), _decoded(subscription.keys.auth)
    if len(point) != _POINT_BYTES or not point.startswith(_UNCOMPRESSED):
        return (
            f"must be a push subscription whose keys.p256dh is a point of {_POINT_BYTES} bytes in base64url"
        )
    if len(auth) != _AUTH_BYTES:
        return f"must be a push subscription whose keys.auth is {_AUTH_BYTES} bytes in base64url"
    return None


def _is_https(endpoint: str) -> bool:
    try:
        parts = urlsplit(endpoint)
    except ValueError:
        return False
    return parts.scheme == "https" and bool(parts.hostname)


def _decoded(text: str) -> bytes:
    bare = text.rstrip("=")
    try:
        return urlsafe_b64decode(bare + "=" * (-len(bare) % 4))
    except ValueError:
        return b""
