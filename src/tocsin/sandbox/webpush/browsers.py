"""Virtual browsers: subscriptions with keys of their own, and the decryption of their messages."""

import functools
import hashlib
import hmac
import os
from pathlib import Path

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.utils import base64url_decode, base64url_encode

from tocsin.sandbox.certificates import write_private

_SEED_BYTES = 32
_SALT_BYTES = 16
_LENGTH_AT = 20
_KEY_AT = 21
_POINT_BYTES = 65
_BODY_AT = _KEY_AT + _POINT_BYTES
_LAST_RECORD = 2
_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551


class Keys(msgspec.Struct, frozen=True):
    """The keys with which a message to a browser is encrypted."""

    p256dh: str
    auth: str


class Subscription(msgspec.Struct, frozen=True, rename="camel"):
    """A push subscription, as the browser API returns it."""

    endpoint: str
    expiration_time: None
    keys: Keys


class DecryptionError(ValueError):
    """A body that the browser cannot decrypt."""


class Browser:
    """One browser with its private key."""

    def __init__(self, name: str, key: ec.EllipticCurvePrivateKey, auth: bytes) -> None:
        self.name = name
        self._key = key
        self._auth = auth
        self._point = key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)

    @property
    def keys(self) -> Keys:
        """The keys of its subscription."""
        return Keys(_encoded(self._point), _encoded(self._auth))

    def decrypt(self, body: bytes) -> bytes:
        """Decrypt a body of one record (RFC 8291)."""
        if len(body) <= _BODY_AT or body[_LENGTH_AT] != _POINT_BYTES:
            raise DecryptionError("the body is not one aes128gcm record with the sender's key in its header")
        point = body[_KEY_AT:_BODY_AT]
        try:
            sender = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), point)
        except ValueError as error:
            raise DecryptionError("the sender's key is no point of the P-256 curve") from error
        shared = _mac(self._auth, self._key.exchange(ec.ECDH(), sender))
        secret = _mac(body[:_SALT_BYTES], _mac(shared, b"WebPush: info\0" + self._point + point + b"\x01"))
        key = _mac(secret, b"Content-Encoding: aes128gcm\0\x01")[:16]
        nonce = _mac(secret, b"Content-Encoding: nonce\0\x01")[:12]
        try:
            padded = AESGCM(key).decrypt(nonce, body[_BODY_AT:], None).rstrip(b"\0")
        except InvalidTag as error:
            raise DecryptionError("the body was not encrypted for this subscription") from error
        if not padded or padded[-1] != _LAST_RECORD:
            raise DecryptionError("the record is not marked as the last")
        return padded[:-1]


class Browsers:
    """The browser of every name; its keys are derived from the name and the sandbox's seed.

    `named` returns the browser of a name. A subscription outlives the sandbox that issued it, as long as its
    folder is kept.
    """

    def __init__(self, folder: Path, *, kept: int) -> None:
        path = folder / "browsers.seed"
        if not path.exists():
            write_private(path, os.urandom(_SEED_BYTES))
        self._seed = path.read_bytes()
        self.named = functools.lru_cache(maxsize=kept)(self._derive)

    def path_of(self, name: str) -> str:
        """Return the last part of a browser's endpoint, which cannot be guessed."""
        return f"{_encoded(name.encode())}.{_encoded(self._seal(name))}"

    def at(self, path: str) -> Browser | None:
        """Return the browser of an endpoint."""
        encoded, _, seal = path.partition(".")
        try:
            name = base64url_decode(encoded).decode()
        except ValueError:
            return None
        return self.named(name) if hmac.compare_digest(seal, _encoded(self._seal(name))) else None

    def _derive(self, name: str) -> Browser:
        number = int.from_bytes(hmac.digest(self._seed, b"key" + name.encode(), hashlib.sha512), "big")
        key = ec.derive_private_key(number % (_ORDER - 1) + 1, ec.SECP256R1())
        return Browser(name, key, _mac(self._seed, b"auth" + name.encode())[:16])

    def _seal(self, name: str) -> bytes:
        return _mac(self._seed, b"endpoint" + name.encode())[:16]


def _mac(key: bytes, content: bytes) -> bytes:
    return hmac.digest(key, content, "sha256")


def _encoded(content: bytes) -> str:
    return base64url_encode(content).decode()
