"""Parses and checks the values and arguments of the formatting filters."""

import datetime as dt
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Literal, TypeAlias
from zoneinfo import ZoneInfo

import msgspec
from babel.core import get_global
from jinja2 import Undefined

from tocsin.domain.timing.zones import is_known_timezone

MOST_DIGITS = 9
_LARGEST = 10**40
_DECIMAL = re.compile(r"[+-]?[0-9]{1,40}(?:\.[0-9]{1,40})?", re.ASCII)
_SECONDS = slice(17, 19)
_SHOWN = 40

Style: TypeAlias = Literal["short", "medium", "long", "full"]
STYLES: Mapping[str, Style] = {"short": "short", "medium": "medium", "long": "long", "full": "full"}


class FormatError(Exception):
    """A value cannot be formatted in the way a template asks for."""


def decimal_places(value: Any) -> int:
    """Return a count of decimal places, or raise FormatError."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST_DIGITS:
        return value
    raise FormatError(f"digits is a whole number from 0 to {MOST_DIGITS}, not {_shown(value)}")


def currency_code(value: Any) -> str:
    """Return a currency code, or raise FormatError."""
    if isinstance(value, str) and value in get_global("all_currencies"):
        return value
    raise FormatError(f"{_shown(value)} is not a currency; write its ISO code, such as EUR")


def date_style(value: Any) -> Style:
    """Return a date style, or raise FormatError."""
    style = STYLES.get(value) if isinstance(value, str) else None
    if style is None:
        raise FormatError(f"{_shown(value)} is not a date style; styles are {', '.join(STYLES)}")
    return style


def time_zone(value: Any) -> ZoneInfo:
    """Return the time zone of an IANA name, or raise FormatError."""
    if isinstance(value, str) and is_known_timezone(value):
        return ZoneInfo(value)
    raise FormatError(f"{_shown(value)} is not a time zone; write an IANA name, such as Europe/Istanbul")


def parse_amount(value: Any) -> Decimal:
    """Parse a number, or a text such as `12.50`."""
    match value:
        case int() | float() if not isinstance(value, bool) and -_LARGEST < value < _LARGEST:
            return Decimal(str(value))
        case str() if _DECIMAL.fullmatch(value):
            return Decimal(value)
        case _:
            raise FormatError(f"{_shown(value)} is not a number, or is too large to format")


def parse_day(value: Any, zone: ZoneInfo | None) -> dt.date:
    """Parse a day from a date, or from a date and time in a zone."""
    if isinstance(value, str) and "T" not in value.upper():
        try:
            return msgspec.convert(value, dt.date)
        except msgspec.ValidationError:
            raise FormatError(f"{_shown(value)} is not a date; write it as 2031-05-17") from None
    return parse_moment(value, zone).date()


def parse_moment(value: Any, zone: ZoneInfo | None) -> dt.datetime:
    """Parse a date and time with its offset, and convert it to a zone."""
    try:
        moment = msgspec.convert(_without_leap_second(value), dt.datetime)
        if moment.tzinfo is not None:
            return moment.astimezone(zone) if zone else moment
    except (msgspec.ValidationError, OverflowError):
        pass
    raise FormatError(f"{_shown(value)} is not a date and time; write it as 2031-05-17T09:30:00+03:00")


def _without_leap_second(value: Any) -> Any:
    """Replace second 60, which Python's datetime does not support, by second 59."""
    if isinstance(value, str) and value[_SECONDS] == "60":
        return value[: _SECONDS.start] + "59" + value[_SECONDS.stop :]
    return value


def _shown(value: Any) -> str:
    match value:
        case Undefined():
            # Printing it raises Jinja's own error, which contains the missing name.
            return str(value)
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return repr(value if len(value) <= _SHOWN else value[:_SHOWN] + "…")
        case int() | float():
            return "a number"
        case _:
            return f"a {type(value).__name__}"
