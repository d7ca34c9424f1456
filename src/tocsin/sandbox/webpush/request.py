"""The push service's check of a request: its headers and its VAPID signature (RFC 8030, 8292)."""

import functools
import re
import time
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.utils import base64url_decode

from tocsin.sandbox.stand_in import ReceivedRequest
from tocsin.sandbox.webpush.errors import refused

LARGEST_BODY = 4_096
_LONGEST_TOKEN_SECONDS = 86_400
_CLOCK_SLACK_SECONDS = 60
_SIGNATURES_KEPT = 1_000
_TOPIC = re.compile(r"[A-Za-z0-9_-]{1,32}")
_URGENCIES = frozenset({"very-low", "low", "normal", "high"})
_EXPIRED = "The token has expired."
_CREDENTIALS = re.compile(r"vapid\s+(.+)", re.IGNORECASE)


def check_signature(authorization: str | None, origin: str) -> str:
    """Return the public key that signed for this origin."""
    given = _CREDENTIALS.fullmatch(authorization or "")
    parts = given[1].split(",") if given else []
    named: dict[str, str] = dict(part.strip().partition("=")[::2] for part in parts)
    token, key = named.get("t"), named.get("k", "").rstrip("=")
    if not token or not key:
        raise refused("UNAUTHORIZED")
    if time.time() >= _expiry(token, key, origin):
        raise refused("FORBIDDEN", _EXPIRED)
    return key


def parse_headers(request: ReceivedRequest) -> dict[str, int | str | None]:
    """Return the headers for the delivery of a message; refuse those that are missing or not valid."""
    ttl, urgency, topic = (request.header(name) for name in ("ttl", "urgency", "topic"))
    if ttl is None or not (ttl.isascii() and ttl.isdigit()):
        raise refused("BAD_REQUEST", "The TTL header is missing or not a number of seconds.")
    if urgency is not None and urgency not in _URGENCIES:
        raise refused("BAD_REQUEST", "The Urgency header is none of very-low, low, normal and high.")
    if topic is not None and not _TOPIC.fullmatch(topic):
        text = "The Topic header is not 1 to 32 characters of the URL-safe base64 alphabet."
        raise refused("BAD_REQUEST", text)
    # A message without a body is legal and has nothing to decrypt.
    if request.body and request.header("content-encoding") != "aes128gcm":
        raise refused("BAD_REQUEST", "The Content-Encoding header is not aes128gcm.")
    if len(request.body) > LARGEST_BODY:
        raise refused("PAYLOAD_TOO_LARGE")
    return {"ttl": int(ttl), "urgency": urgency, "topic": topic}


@functools.lru_cache(maxsize=_SIGNATURES_KEPT)
def _expiry(token: str, key: str, origin: str) -> float:
    """Check a token and return when it expires."""
    try:
        public = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), base64url_decode(key))
        claims: dict[str, Any] = jwt.decode(
            token, public, algorithms=["ES256"], audience=origin, options={"require": ["exp", "aud"]}
        )
    except jwt.ExpiredSignatureError:
        raise refused("FORBIDDEN", _EXPIRED) from None
    except jwt.InvalidAudienceError:
        raise refused("FORBIDDEN", "The token is for another push service.") from None
    except (jwt.PyJWTError, ValueError):
        raise refused("FORBIDDEN") from None
    if claims["exp"] > time.time() + _LONGEST_TOKEN_SECONDS + _CLOCK_SLACK_SECONDS:
        raise refused("FORBIDDEN", "The token is valid for more than 24 hours.")
    if not str(claims.get("sub", "")).startswith(("mailto:", "https:")):
        raise refused("FORBIDDEN", "The token names nobody to ask, by mailto: or https:.")
    return float(claims["exp"])
