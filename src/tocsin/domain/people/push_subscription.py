"""A browser's push subscription, as a page registers it: where to post and the keys to encrypt with."""

from base64 import urlsafe_b64decode

import msgspec

POINT_BYTES = 65
AUTH_BYTES = 16
_UNCOMPRESSED = b"\x04"


class _Keys(msgspec.Struct, frozen=True):
    p256dh: str
    auth: str


class _Endpoint(msgspec.Struct, frozen=True):
    endpoint: str


class _Subscription(_Endpoint, frozen=True):
    keys: _Keys


class PushSubscription(msgspec.Struct, frozen=True):
    """A subscription whose keys have the right form; whether its endpoint may be called is not checked."""

    endpoint: str
    p256dh: bytes
    auth: bytes

    def __repr__(self) -> str:
        """Show nothing: who knows the endpoint may send to it."""
        return "PushSubscription(…)"


class SubscriptionFaultError(ValueError):
    """A subscription that can never be sent to; the text says why, without quoting it."""


def read_subscription(token: str) -> PushSubscription:
    """Parse the text of `JSON.stringify(subscription)`, or raise SubscriptionFaultError."""
    try:
        given = msgspec.json.decode(token, type=_Subscription)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        raise SubscriptionFaultError(
            "is not a push subscription as JSON, with endpoint, keys.p256dh and keys.auth"
        ) from None
    auth = _decoded("keys.auth", given.keys.auth, AUTH_BYTES)
    point = _decoded("keys.p256dh", given.keys.p256dh, POINT_BYTES)
    if not point.startswith(_UNCOMPRESSED):
        raise SubscriptionFaultError("has keys.p256dh that is not an uncompressed point")
    return PushSubscription(given.endpoint, point, auth)


def endpoint_of(token: str) -> str | None:
    """Return the endpoint of a subscription whose keys need not be right; None if it has none."""
    try:
        return msgspec.json.decode(token, type=_Endpoint).endpoint
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return None


def _decoded(name: str, text: str, length: int) -> bytes:
    bare = text.rstrip("=")
    try:
        content = urlsafe_b64decode(bare + "=" * (-len(bare) % 4))
    except ValueError:
        content = b""
    if len(content) != length:
        raise SubscriptionFaultError(f"has {name} that is not {length} bytes in base64url")
    return content
