"""Template filters that format numbers, dates and plurals for a locale (CLDR, by Babel)."""

import re
from collections.abc import Callable
from copy import copy
from decimal import Context, Decimal, localcontext
from functools import cached_property, lru_cache
from typing import Any

from babel import Locale, UnknownLocaleError
from babel.dates import format_date, format_datetime
from babel.numbers import NumberPattern

from tocsin.catalog.formats.numerals import Numerals
from tocsin.catalog.formats.values import (
    currency_code,
    date_style,
    decimal_places,
    parse_amount,
    parse_day,
    parse_moment,
    time_zone,
)

FILTERS = ("number", "percent", "currency", "date", "datetime", "plural")
_FORMS = ("zero", "one", "two", "few", "many", "other")
_NOT_ZERO = re.compile("[1-9]")
# Babel by itself calculates with 28 digits.
_WIDE = Context(prec=80)


class Formats:
    """The filters of one locale."""

    def __init__(self, locale: Locale) -> None:
        self._locale = locale
        self._numerals = Numerals(locale)

    @property
    def filters(self) -> dict[str, Callable[..., str]]:
        """Every filter by its name in a template."""
        return {name: getattr(self, name) for name in FILTERS}

    def number(self, value: Any, digits: Any = None) -> str:
        """Format a number, with a fixed count of decimal places if one is given."""
        pattern = _with_places(self._locale.decimal_formats[None], digits)
        return self._numerals.number(self._applied(pattern, parse_amount(value)))

    def percent(self, value: Any, digits: Any = 0) -> str:
        """Format a fraction as a percentage: 0.25 is 25 %."""
        pattern = _with_places(self._locale.percent_formats[None], digits)
        return self._numerals.percent(self._applied(pattern, parse_amount(value)))

    def currency(self, value: Any, code: Any) -> str:
        """Format an amount of money, with the decimal places of its currency."""
        pattern = self._locale.currency_formats["standard"]
        return self._numerals.number(self._applied(pattern, parse_amount(value), currency_code(code)))

    def date(self, value: Any, style: Any = "medium", timezone: Any = None) -> str:
        """Format a day, given as a date or as a date and time."""
        day = parse_day(value, None if timezone is None else time_zone(timezone))
        return self._numerals.digits(format_date(day, date_style(style), locale=self._locale))

    def datetime(self, value: Any, style: Any = "medium", timezone: Any = None) -> str:
        """Format a date and time, at its own offset or in a time zone."""
        moment = parse_moment(value, None if timezone is None else time_zone(timezone))
        written = format_datetime(moment, date_style(style), tzinfo=moment.tzinfo, locale=self._locale)
        return self._numerals.digits(written)

    def plural(self, value: Any, **forms: Any) -> Any:
        """Return the argument for the plural form of a count."""
        count = parse_amount(value).normalize(_WIDE)
        form = self._locale.plural_form(count)
        return forms[form] if form in forms else forms["other"]

    @cached_property
    def plural_forms(self) -> tuple[str, ...]:
        """The plural forms of this language, in the usual order."""
        return tuple(form for form in _FORMS if form == "other" or form in self._locale.plural_form.tags)

    @cached_property
    def needed_plural_forms(self) -> tuple[str, ...]:
        """The plural forms of the counts 0 to 200; those for fractions or millions may be left out."""
        everyday = {self._locale.plural_form(count) for count in range(201)}
        return tuple(form for form in self.plural_forms if form == "other" or form in everyday)

    def _applied(self, pattern: NumberPattern, amount: Decimal, currency: str | None = None) -> str:
        system = self._numerals.system
        with localcontext(_WIDE):
            written: str = pattern.apply(amount, self._locale, currency=currency, numbering_system=system)
        if amount.is_signed() and not _NOT_ZERO.search(written):
            # A negative number that rounds to zero has no sign.
            return self._applied(pattern, abs(amount), currency)
        return written


def _with_places(pattern: NumberPattern, digits: Any) -> NumberPattern:
    """Return a pattern with a fixed count of decimal places, if one is given."""
    if digits is None:
        return pattern
    changed = copy(pattern)
    changed.frac_prec = (decimal_places(digits), decimal_places(digits))
    return changed


@lru_cache(maxsize=256)
def formats_of(tag: str | None) -> Formats | None:
    """Return the filters of a locale, or of the closest one in CLDR; None without either."""
    while tag:
        try:
            return Formats(Locale.parse(tag, sep="-"))
        except (UnknownLocaleError, ValueError):
            tag = tag.rpartition("-")[0]
    return None
