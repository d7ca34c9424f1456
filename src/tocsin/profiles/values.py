"""Parses the values of variables that another service defined: what it wrote, Tocsin reads as it stands."""

import re
from typing import NamedTuple

import msgspec

from tocsin.domain.intent import EmailAddress
from tocsin.logs import Level

_NANOSECONDS = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,
    "μs": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}
_PART = r"(\d{1,12}(?:\.\d{0,12})?|\.\d{1,12})(ns|us|µs|μs|ms|s|m|h)"
_DURATION = re.compile(rf"\+?(?:{_PART})+", re.ASCII)
_PARTS = re.compile(_PART, re.ASCII)
_LONGEST_DURATION = 100 * 365 * 86_400
_HOST = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9._-]{0,252})|\[[0-9A-Fa-f:.]{2,45}\]", re.ASCII)
_LARGEST_PORT = 65_535
_LARGEST_INTEGER = 2**31 - 1
_TRUE, _FALSE = {"1", "t", "T", "TRUE", "true", "True"}, {"0", "f", "F", "FALSE", "false", "False"}
_LEVELS: dict[str, Level] = {
    "debug": "debug",
    "info": "info",
    "warn": "warning",
    "warning": "warning",
    "error": "error",
}
_SHOWN = 40


class Address(NamedTuple):
    """A host and a port; an IPv6 address stands in brackets."""

    host: str
    port: int


def duration(text: str) -> float:
    """Return the seconds of a duration of Go, such as `2s`, `168h`, `1m30s` or `1.5h`."""
    if not _DURATION.fullmatch(text):
        raise ValueError(f"{_shown(text)} is not a duration: write it as 2s, 1m30s or 168h")
    nanoseconds = sum(float(count) * _NANOSECONDS[unit] for count, unit in _PARTS.findall(text))
    seconds = float(nanoseconds) / 1_000_000_000
    if not 0 < seconds <= _LONGEST_DURATION:
        raise ValueError("must be longer than 0 and at most a hundred years")
    return seconds


def days(text: str) -> float:
    """Return the days of a duration of Go."""
    return duration(text) / 86_400


def integer(text: str) -> int:
    """Return a whole number that is not negative."""
    if not (text.isascii() and text.isdecimal() and len(text) <= len(str(_LARGEST_INTEGER))):
        raise ValueError(f"{_shown(text)} is not a whole number from 0 up")
    if (number := int(text)) > _LARGEST_INTEGER:
        raise ValueError(f"must be at most {_LARGEST_INTEGER:,}")
    return number


def boolean(text: str) -> bool:
    """Return a boolean, written as Go parses it."""
    if text in _TRUE | _FALSE:
        return text in _TRUE
    raise ValueError(f"{_shown(text)} is neither true nor false")


def text(value: str) -> str:
    """Return a text as it is; whoever uses it checks it."""
    return value


def level(value: str) -> Level:
    """Return the level of logs; `warn` is Tocsin's `warning`."""
    if known := _LEVELS.get(value.lower()):
        return known
    raise ValueError(f"{_shown(value)} is not a level: write debug, info, warn or error")


def server_address(value: str) -> Address:
    """Return the address of a server, `host:port`; without a host it is this machine."""
    found = _address(value)
    if not found.port:
        raise ValueError("must have a port from 1 to 65535")
    return Address(found.host or "127.0.0.1", found.port)


def listen_address(value: str) -> Address:
    """Return the address to listen on, `host:port`; without a host it is every interface of IPv4."""
    found = _address(value)
    return Address(found.host.strip("[]") or "0.0.0.0", found.port)  # noqa: S104 - that is what `:8092` means


def server_addresses(value: str) -> list[Address]:
    """Return several addresses of servers, with commas between."""
    return [server_address(each) for each in listed(value)]


def listed(value: str) -> list[str]:
    """Return the items between commas, without blanks."""
    return [item.strip() for item in value.split(",") if item.strip()]


def emails(value: str) -> list[str]:
    """Return several mail addresses, with commas between."""
    try:
        return msgspec.convert(listed(value), list[EmailAddress])
    except msgspec.ValidationError:
        raise ValueError("must be mail addresses with commas between") from None


def _address(value: str) -> Address:
    """Parse an address without quoting it in an error: it may hold a password by mistake."""
    host, colon, port = value.rpartition(":")
    if not colon or (host and not _HOST.fullmatch(host)):
        raise ValueError("is not an address: write host:port")
    if not (port.isascii() and port.isdecimal() and len(port) <= len(str(_LARGEST_PORT))):
        raise ValueError("must have a port from 1 to 65535")
    if int(port) > _LARGEST_PORT:
        raise ValueError("must have a port from 1 to 65535")
    return Address(host, int(port))


def _shown(value: str) -> str:
    return repr(value if len(value) <= _SHOWN else value[:_SHOWN] + "…")
