"""Signed one-click links that unsubscribe a person from a category of e-mail (RFC 8058)."""

import hashlib
import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterator
from urllib.parse import urlsplit

import msgspec

from tocsin.domain.catalog import Channel
from tocsin.domain.faults import Fault

SHORTEST_SECRET = 32
# These two keep the link within the 998 characters of a line in an e-mail.
LONGEST_TOKEN = 850
LONGEST_BASE_URL = 120

PATH = "/v1/unsubscribe/"

_VERSION = "1"
_PURPOSE = b"tocsin unsubscribe 1\x00"
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


class UnsubscribeSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The secret that signs unsubscribe links, and the public base URL of the API.

    Links do not expire, since people keep mails for years; a new secret invalidates all earlier links.
    """

    secret: str | None = None
    base_url: str | None = None

    def __repr__(self) -> str:
        """Show everything but the secret."""
        return (
            f"UnsubscribeSettings(secret=<{'set' if self.secret else 'not set'}>, base_url={self.base_url!r})"
        )


def unsubscribe_settings_faults(settings: UnsubscribeSettings) -> Iterator[Fault]:
    """List what is wrong with the settings of unsubscribe links."""
    secret, base_url = settings.secret, settings.base_url
    if (secret is None) != (base_url is None):
        lacking = "secret" if secret is None else "base_url"
        message = "must be set too: a link needs both a secret and a base_url"
        yield Fault(field=f"unsubscribe.{lacking}", code="missing", message=message)
    if secret is not None and len(secret.encode()) < SHORTEST_SECRET:
        message = f"must be at least {SHORTEST_SECRET} bytes, or links can be forged by guessing it"
        yield Fault(field="unsubscribe.secret", code="too_short", message=message)
    if base_url is not None and (message := _base_url_fault(base_url)):
        yield Fault(field="unsubscribe.base_url", code="invalid", message=message)


def _base_url_fault(base_url: str) -> str:
    if len(base_url) > LONGEST_BASE_URL or not base_url.isascii() or not base_url.isprintable():
        return f"must be at most {LONGEST_BASE_URL} plain characters"
    try:
        parts = urlsplit(base_url)
    except ValueError:
        return "must be an address such as https://notify.example.com"
    if parts.query or parts.fragment or any(character in base_url for character in " <>,\"'?#"):
        return "must be a plain address, without query, fragment or spaces"
    if parts.scheme == "https" and parts.hostname:
        return ""
    if parts.scheme == "http" and parts.hostname in _LOOPBACK:
        return ""
    return "must be an https:// address that people's mail services can reach"


class Unsubscription(msgspec.Struct, frozen=True, array_like=True):
    """The person, category and channel of an unsubscribe link.

    It is signed, so the id is one that was accepted, if only by an earlier version.
    """

    user_id: str
    category: str
    channel: Channel


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Unsubscription)


def sign(secret: str, user_id: str, category: str, channel: Channel) -> str:
    """Build the signed token that opts one person out of one category by one channel."""
    content = _encoder.encode(Unsubscription(user_id, category, channel))
    return f"{_VERSION}.{_text(content)}.{_text(_signature(secret, content))}"


def read(secret: str, token: str) -> Unsubscription | None:
    """Return the content of a token if it was signed with this secret, else None."""
    if len(token) > LONGEST_TOKEN or not token.isascii():
        return None
    match token.split("."):
        case [version, encoded, signed] if version == _VERSION:
            content = _content(encoded)
        case _:
            return None
    if content is None or not hmac.compare_digest(_text(_signature(secret, content)), signed):
        return None
    return _decoder.decode(content)


def unsubscribe_url(settings: UnsubscribeSettings, user_id: str, category: str) -> str | None:
    """Return the link that unsubscribes a person from a category of e-mail; None if links are not set up."""
    if not settings.secret or not settings.base_url:
        return None
    return settings.base_url.rstrip("/") + PATH + sign(settings.secret, user_id, category, "email")


def unsubscribe_headers(settings: UnsubscribeSettings, user_id: str, category: str) -> dict[str, str]:
    """Return the e-mail headers with the unsubscribe link; none if links are not set up."""
    url = unsubscribe_url(settings, user_id, category)
    if url is None:
        return {}
    return {"List-Unsubscribe": f"<{url}>", "List-Unsubscribe-Post": "List-Unsubscribe=One-Click"}


def _signature(secret: str, content: bytes) -> bytes:
    return hmac.digest(secret.encode(), _PURPOSE + content, hashlib.sha256)


def _text(content: bytes) -> str:
    return urlsafe_b64encode(content).rstrip(b"=").decode()


def _content(encoded: str) -> bytes | None:
    """Decode base64url; a non-canonical encoding is refused, so that a link has one form only."""
    try:
        content = urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4))
    except ValueError:
        return None
    return content if _text(content) == encoded else None
