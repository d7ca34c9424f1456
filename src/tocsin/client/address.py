"""Checking the address of the server and the credentials before the first call."""

from urllib.parse import SplitResult, urlsplit

from pyreqwest.http import Url

from tocsin.client.exchange import Secret


def checked_base_url(base_url: str, name: str = "base_url") -> str:
    """Return the address without a trailing slash; raise if it is not a bare http or https address."""
    parts = _split(base_url)
    if parts is None:
        # What stands before an @ may be a password.
        given = f", not {base_url!r}" if "@" not in base_url else ""
        raise ValueError(f"{name} must be an http or https address such as http://127.0.0.1:8470{given}")
    if parts.query or parts.fragment or parts.username is not None:
        raise ValueError(
            f"{name} must be a bare address such as http://127.0.0.1:8470, without user, query or fragment"
        )
    return base_url.rstrip("/")


def _split(base_url: str) -> SplitResult | None:
    """Return the parts of an http or https address; None if the HTTP client would refuse its host or port."""
    try:
        Url(base_url)
        parts = urlsplit(base_url)
    except ValueError:
        return None
    return parts if parts.scheme in {"http", "https"} and parts.hostname else None


def checked_secret(name: str, value: str) -> Secret:
    """Return a key or token that can be sent in a header; raise without quoting it if it cannot."""
    if not value:
        raise ValueError(f"{name} is empty; pass the one that was created for the caller")
    if not (value.isascii() and value.isprintable()) or " " in value:
        raise ValueError(f"{name} holds a space, a line break or another character that no key has; strip it")
    return Secret(value)
