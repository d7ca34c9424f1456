"""A browser's subscription, as a page registers it: where to post and the keys to encrypt with."""

from base64 import urlsafe_b64decode

import msgspec
from cryptography.hazmat.primitives.asymmetric import ec
from pyreqwest.http import Url

from tocsin.providers.http.ssrf_guard import Guard
from tocsin.providers.webpush.crypto import POINT_BYTES

AUTH_BYTES = 16
_CURVE = ec.SECP256R1()


class _Keys(msgspec.Struct, frozen=True):
    p256dh: str
    auth: str


class _Given(msgspec.Struct, frozen=True):
    endpoint: str
    keys: _Keys


class _Endpoint(msgspec.Struct, frozen=True):
    endpoint: str


_given = msgspec.json.Decoder(_Given)
_endpoint = msgspec.json.Decoder(_Endpoint)


class Subscription(msgspec.Struct, frozen=True):
    """A subscription that can be sent to."""

    endpoint: str
    origin: str
    key: ec.EllipticCurvePublicKey
    auth: bytes

    def __repr__(self) -> str:
        """Name the push service alone: who knows the endpoint may send to it."""
        return f"Subscription({self.origin})"


class SubscriptionFaultError(ValueError):
    """A subscription cannot be sent to, and never will be; says why, without quoting it."""


def read_subscription(token: str, guard: Guard) -> Subscription:
    """Read what `JSON.stringify(subscription)` gave, or raise SubscriptionFaultError."""
    try:
        given = _given.decode(token)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        raise SubscriptionFaultError(
            "is not a push subscription as JSON, with endpoint, keys.p256dh and keys.auth"
        ) from None
    if fault := guard.fault(given.endpoint):
        raise SubscriptionFaultError(f"has an endpoint that {fault}")
    auth = _decoded("keys.auth", given.keys.auth, AUTH_BYTES)
    point = _decoded("keys.p256dh", given.keys.p256dh, POINT_BYTES)
    try:
        key = ec.EllipticCurvePublicKey.from_encoded_point(_CURVE, point)
    except ValueError:
        raise SubscriptionFaultError("has keys.p256dh that is no point of the P-256 curve") from None
    return Subscription(given.endpoint, Url(given.endpoint).origin_ascii, key, auth)


def subscription_fault(token: str, *, allow_private: bool = False) -> str | None:
    """Say what is wrong with a subscription, to the one who registers it."""
    try:
        read_subscription(token, Guard(allow_private=allow_private))
    except SubscriptionFaultError as error:
        return str(error)
    return None


def host_of(token: str) -> str:
    """Name the host and port of a subscription's push service; nothing if it cannot be told."""
    try:
        return Url(_endpoint.decode(token).endpoint).authority
    except (msgspec.DecodeError, ValueError, RecursionError):
        return ""


def _decoded(name: str, text: str, length: int) -> bytes:
    try:
        content = urlsafe_b64decode(text.rstrip("=") + "=" * (-len(text.rstrip("=")) % 4))
    except ValueError:
        content = b""
    if len(content) != length:
        raise SubscriptionFaultError(f"has {name} that is not {length} bytes in base64url")
    return content
