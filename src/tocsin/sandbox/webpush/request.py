"""The push service's check of a request: its headers and its VAPID signature (RFC 8030, 8292)."""

import re
import time
from base64 import urlsafe_b64decode
from typing import Any

import jwt
import msgspec
from cryptography.hazmat.primitives.asymmetric import ec

from tocsin.sandbox.stand_in import Request
from tocsin.sandbox.webpush.errors import refused

LARGEST_BODY = 4_096
_LONGEST_TOKEN_SECONDS = 86_400
_CLOCK_SLACK_SECONDS = 60
_SIGNATURES_KEPT = 1_000
_TOPIC = re.compile(r"[A-Za-z0-9_-]{1,32}")
_URGENCIES = frozenset({"very-low", "low", "normal", "high"})
_CREDENTIALS = re.compile(r"vapid\s+(.+)", re.IGNORECASE)


class PushHeaders(msgspec.Struct, frozen=True):
    """The headers that say how a message is delivered."""

    ttl: int
    urgency: str | None
    topic: str | None


class Signatures:
    """Checks VAPID signatures; a valid one is cached until it expires."""

    def __init__(self) -> None:
        self._valid: dict[tuple[str, str], tuple[str, float]] = {}

    def signer(self, authorization: str | None, origin: str) -> str:
        """Return the public key that signed for this origin."""
        token, key = _credentials(authorization)
        known, expires = self._valid.get((token, origin), ("", 0.0))
        if known == key and time.time() < expires:
            return key
        expires = _check(token, key, origin)
        if len(self._valid) >= _SIGNATURES_KEPT:
            self._valid.clear()
        self._valid[token, origin] = key, expires
        return key


def parse_headers(request: Request) -> PushHeaders:
    """Parse the headers of a message, and refuse those that are missing or not valid."""
    ttl, urgency, topic = (request.header(name) for name in ("ttl", "urgency", "topic"))
    if ttl is None or not (ttl.isascii() and ttl.isdigit()):
        raise refused("BAD_REQUEST", "The TTL header is missing or not a number of seconds.")
    if urgency is not None and urgency not in _URGENCIES:
        raise refused("BAD_REQUEST", "The Urgency header is none of very-low, low, normal and high.")
    if topic is not None and not _TOPIC.fullmatch(topic):
        text = "The Topic header is not 1 to 32 characters of the URL-safe base64 alphabet."
        raise refused("BAD_REQUEST", text)
    if request.header("content-encoding") != "aes128gcm":
        raise refused("BAD_REQUEST", "The Content-Encoding header is not aes128gcm.")
    if len(request.body) > LARGEST_BODY:
        raise refused("PAYLOAD_TOO_LARGE")
    return PushHeaders(int(ttl), urgency, topic)


def _credentials(authorization: str | None) -> tuple[str, str]:
    given = _CREDENTIALS.fullmatch(authorization or "")
    named = dict(part.strip().partition("=")[::2] for part in given[1].split(",")) if given else {}
    token, key = named.get("t"), named.get("k")
    if not token or not key:
        raise refused("UNAUTHORIZED")
    return token, key.rstrip("=")


def _check(token: str, key: str, origin: str) -> float:
    """Check a token and return when it expires."""
    try:
        point = urlsafe_b64decode(key + "=" * (-len(key) % 4))
        public = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), point)
        claims: dict[str, Any] = jwt.decode(
            token, public, algorithms=["ES256"], audience=origin, options={"require": ["exp", "aud"]}
        )
    except jwt.ExpiredSignatureError:
        raise refused("FORBIDDEN", "The token has expired.") from None
    except jwt.InvalidAudienceError:
        raise refused("FORBIDDEN", "The token is for another push service.") from None
    except (jwt.PyJWTError, ValueError):
        raise refused("FORBIDDEN") from None
    if claims["exp"] > time.time() + _LONGEST_TOKEN_SECONDS + _CLOCK_SLACK_SECONDS:
        raise refused("FORBIDDEN", "The token is valid for more than 24 hours.")
    if not str(claims.get("sub", "")).startswith(("mailto:", "https:")):
        raise refused("FORBIDDEN", "The token names nobody to ask, by mailto: or https:.")
    return float(claims["exp"])
