"""Subscriptions of a browser whose private key the tests hold."""

from base64 import urlsafe_b64encode

import msgspec
from cryptography.hazmat.primitives.asymmetric import ec

from tocsin.providers.webpush.crypto import point


def encoded(content: bytes) -> str:
    return urlsafe_b64encode(content).decode().rstrip("=")


AUTH = b"0123456789abcdef"
BROWSER = ec.generate_private_key(ec.SECP256R1())
KEYS = {"p256dh": encoded(point(BROWSER.public_key())), "auth": encoded(AUTH)}


def subscription(endpoint: str = "https://push.example.com/s/abcdefgh", **keys: str) -> str:
    content = {"endpoint": endpoint, "expirationTime": None, "keys": KEYS | keys}
    return msgspec.json.encode(content).decode()
