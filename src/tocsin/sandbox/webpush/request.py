"""What a push service asks of a request: headers in order and a signature that holds (RFC 8030, 8292)."""

import re
import time
from base64 import urlsafe_b64decode
from typing import Any

import jwt
import msgspec
from cryptography.hazmat.primitives.asymmetric import ec

from tocsin.sandbox.answers import Answer
from tocsin.sandbox.service import Request
from tocsin.sandbox.webpush.errors import REFUSALS, refusal

LARGEST_BODY = 4_096
_LONGEST_TOKEN_SECONDS = 86_400
_CLOCK_SLACK_SECONDS = 60
_SIGNATURES_KEPT = 1_000
_TOPIC = re.compile(r"[A-Za-z0-9_-]{1,32}")
_URGENCIES = frozenset({"very-low", "low", "normal", "high"})
_CREDENTIALS = re.compile(r"vapid\s+(.+)", re.IGNORECASE)


class Wish(msgspec.Struct, frozen=True):
    """How a message is to be treated, by its headers."""

    ttl: int
    urgency: str | None
    topic: str | None


class Signatures:
    """Checks who signs requests; one that was found good is good until it runs out."""

    def __init__(self) -> None:
        self._good: dict[tuple[str, str], tuple[str, float]] = {}

    def signer(self, authorization: str | None, origin: str) -> str | Answer:
        """Give the public key of whoever signed for this origin, or refuse."""
        parameters = _parameters(authorization)
        if parameters is None:
            return REFUSALS["UNAUTHORIZED"]
        token, key = parameters
        known, expires = self._good.get((token, origin), ("", 0.0))
        if known == key and time.time() < expires:
            return key
        checked = _check(token, key, origin)
        if isinstance(checked, Answer):
            return checked
        if len(self._good) >= _SIGNATURES_KEPT:
            self._good.clear()
        self._good[token, origin] = key, checked
        return key


def read_wish(request: Request) -> Wish | Answer:
    """Read the headers, or refuse what is missing or not as the RFC has it."""
    ttl, urgency, topic = (request.header(name) for name in ("ttl", "urgency", "topic"))
    if ttl is None or not (ttl.isascii() and ttl.isdigit()):
        return _bad("The TTL header is missing or not a number of seconds.")
    if urgency is not None and urgency not in _URGENCIES:
        return _bad("The Urgency header is none of very-low, low, normal and high.")
    if topic is not None and not _TOPIC.fullmatch(topic):
        return _bad("The Topic header is not 1 to 32 characters of the URL-safe base64 alphabet.")
    if request.header("content-encoding") != "aes128gcm":
        return _bad("The Content-Encoding header is not aes128gcm.")
    if len(request.body) > LARGEST_BODY:
        return REFUSALS["PAYLOAD_TOO_LARGE"]
    return Wish(int(ttl), urgency, topic)


def _bad(words: str) -> Answer:
    return refusal("BAD_REQUEST", 400, words)


def _forbidden(words: str) -> Answer:
    return refusal("FORBIDDEN", 403, words)


def _parameters(authorization: str | None) -> tuple[str, str] | None:
    given = _CREDENTIALS.fullmatch(authorization or "")
    if given is None:
        return None
    named = dict(part.strip().partition("=")[::2] for part in given[1].split(","))
    token, key = named.get("t"), named.get("k")
    return (token, key.rstrip("=")) if token and key else None


def _check(token: str, key: str, origin: str) -> float | Answer:
    try:
        point = urlsafe_b64decode(key + "=" * (-len(key) % 4))
        public = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), point)
        claims: dict[str, Any] = jwt.decode(
            token, public, algorithms=["ES256"], audience=origin, options={"require": ["exp", "aud"]}
        )
    except jwt.ExpiredSignatureError:
        return _forbidden("The token has expired.")
    except jwt.InvalidAudienceError:
        return _forbidden("The token is for another push service.")
    except (jwt.PyJWTError, ValueError):
        return REFUSALS["FORBIDDEN"]
    if claims["exp"] > time.time() + _LONGEST_TOKEN_SECONDS + _CLOCK_SLACK_SECONDS:
        return _forbidden("The token is valid for more than 24 hours.")
    if not str(claims.get("sub", "")).startswith(("mailto:", "https:")):
        return _forbidden("The token names nobody to ask, by mailto: or https:.")
    return float(claims["exp"])
