"""The cryptography of Web Push: encrypted bodies (RFC 8291) and VAPID signatures (RFC 8292)."""

import hashlib
import hmac
import os
import time
from base64 import urlsafe_b64encode
from collections import OrderedDict
from collections.abc import Callable, Sequence

import jwt
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

from tocsin.domain.errors import ProviderSetupError
from tocsin.domain.people.push_subscription import POINT_BYTES, SubscriptionFaultError

RECORD_BYTES = 4_096
SALT_BYTES = 16
_TAG_BYTES = 16
_LAST_RECORD = b"\x02"
_HEADER_BYTES = SALT_BYTES + 4 + 1 + POINT_BYTES
PLAINTEXT_BYTES = RECORD_BYTES - _HEADER_BYTES - _TAG_BYTES - len(_LAST_RECORD)

# RFC 8292 allows 24 hours by the push service's clock, which may be off from ours.
TOKEN_SECONDS = 12 * 3_600
RENEWED_BEFORE_SECONDS = 6 * 3_600
MOST_ORIGINS = 1_024
KEYS_AHEAD = 32

_SIZES = RECORD_BYTES.to_bytes(4, "big") + bytes([POINT_BYTES])
_CURVE = ec.SECP256R1()
_ECDH = ec.ECDH()


class KeyPairs:
    """Key pairs made ahead, each taken once.

    Made in a row, they find the curve's tables in the processor's cache; one at a time, they do not.
    """

    def __init__(self) -> None:
        self._made: list[tuple[ec.EllipticCurvePrivateKey, bytes]] = []
        # Parent and child of a fork would use the same keys.
        os.register_at_fork(after_in_child=self._made.clear)

    def take(self) -> tuple[ec.EllipticCurvePrivateKey, bytes]:
        """Return a key that nobody else gets, and its point."""
        if not self._made:
            keys = [ec.generate_private_key(_CURVE) for _ in range(KEYS_AHEAD)]
            self._made += [(key, point(key.public_key())) for key in keys]
        return self._made.pop()


def encrypt(
    plaintext: bytes,
    browser_key: ec.EllipticCurvePublicKey,
    auth: bytes,
    *,
    browser_point: bytes | None = None,
    sender_key: ec.EllipticCurvePrivateKey | None = None,
    salt: bytes | None = None,
) -> bytes:
    """Encrypt a body for one browser; key and salt are fresh unless given.

    `browser_point` is the browser's key as a point, which a caller that parsed it has at hand.
    """
    if sender_key is None:
        sender_key, sender_point = _key_pairs.take()
    else:
        sender_point = point(sender_key.public_key())
    salt = salt or os.urandom(SALT_BYTES)
    info = b"WebPush: info\0" + (browser_point or point(browser_key)) + sender_point
    shared = hmac.digest(auth, sender_key.exchange(_ECDH, browser_key), "sha256")
    secret = hmac.digest(salt, hmac.digest(shared, info + b"\x01", "sha256"), "sha256")
    key = hmac.digest(secret, b"Content-Encoding: aes128gcm\0\x01", "sha256")[:16]
    nonce = hmac.digest(secret, b"Content-Encoding: nonce\0\x01", "sha256")[:12]
    header = salt + _SIZES + sender_point
    return header + AESGCM(key).encrypt(nonce, plaintext + _LAST_RECORD, None)


def read_point(content: bytes) -> ec.EllipticCurvePublicKey:
    """Parse a browser's public key from its uncompressed point, or raise SubscriptionFaultError."""
    try:
        return ec.EllipticCurvePublicKey.from_encoded_point(_CURVE, content)
    except ValueError:
        raise SubscriptionFaultError("has keys.p256dh that is no point of the P-256 curve") from None


def point(key: ec.EllipticCurvePublicKey) -> bytes:
    """Return a public key as an uncompressed point."""
    return key.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)


_key_pairs = KeyPairs()


def new_private_key_pem() -> str:
    """Generate a key to sign with, as PEM."""
    key = ec.generate_private_key(_CURVE)
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def public_key_of(private_key_pem: str) -> str:
    """Return the public key that browsers subscribe with."""
    return _encoded(point(_read_key(private_key_pem).public_key()))


def key_id_of(public_key: str) -> str:
    """Return the short id of a public key, by which a subscription's key is remembered."""
    return hashlib.sha256(public_key.encode()).hexdigest()[:16]


class Vapid:
    """Signs for each push service, and again well before a signature expires."""

    def __init__(self, private_key_pem: str, subject: str, *, clock: Callable[[], float] = time.time) -> None:
        self._key = _read_key(private_key_pem)
        self._public_key = _encoded(point(self._key.public_key()))
        self.key_id = key_id_of(self._public_key)
        self._subject = subject
        self._clock = clock
        self._headers: OrderedDict[str, tuple[float, str]] = OrderedDict()

    def authorization(self, origin: str) -> str:
        """Return the Authorization header for a push service."""
        now = self._clock()
        expires, header = self._headers.get(origin, (0.0, ""))
        # A signature from the future means that the clock was put back: the push service would refuse it.
        if not RENEWED_BEFORE_SECONDS < expires - now <= TOKEN_SECONDS:
            expires, header = self._headers[origin] = self._sign(origin, now)
            while len(self._headers) > MOST_ORIGINS:
                self._headers.popitem(last=False)
        self._headers.move_to_end(origin)
        return header

    def forget(self, origin: str) -> None:
        """Drop the signature for a push service that refused it, so that the next is signed anew."""
        self._headers.pop(origin, None)

    def _sign(self, origin: str, now: float) -> tuple[float, str]:
        expires = int(now) + TOKEN_SECONDS
        claims = {"aud": origin, "exp": expires, "sub": self._subject}
        token = jwt.encode(claims, self._key, algorithm="ES256")
        return expires, f"vapid t={token}, k={self._public_key}"


class VapidKeys:
    """Signs with each of several keys: a subscription can only be sent to with the one it was made with."""

    def __init__(self, private_keys: Sequence[str], subject: str) -> None:
        self._subject = subject
        self._by_private_key: dict[str, Vapid] = {}
        self.use(private_keys)

    def use(self, private_keys: Sequence[str]) -> None:
        """Replace the keys, newest first; the signatures of those that stay are kept."""
        known = self._by_private_key
        self._by_private_key = {each: known.get(each) or Vapid(each, self._subject) for each in private_keys}

    def candidates(self, key_id: str | None) -> list[Vapid]:
        """List the keys in the order in which to try them for a subscription.

        One that was registered before keys were remembered was made with the oldest.
        """
        newest_first = list(self._by_private_key.values())
        if len(newest_first) == 1:
            return newest_first
        if key_id is None:
            return newest_first[::-1]
        return sorted(newest_first, key=lambda each: each.key_id != key_id)


def _read_key(private_key_pem: str) -> ec.EllipticCurvePrivateKey:
    try:
        key = load_pem_private_key(private_key_pem.encode(), password=None)
    except (ValueError, TypeError) as error:
        raise ProviderSetupError(
            "The Web Push key cannot be read: give a P-256 private key in PEM form, without a password."
        ) from error
    if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(key.curve, ec.SECP256R1):
        raise ProviderSetupError("The Web Push key is not a P-256 key, which is what browsers require.")
    return key


def _encoded(content: bytes) -> str:
    return urlsafe_b64encode(content).decode().rstrip("=")
