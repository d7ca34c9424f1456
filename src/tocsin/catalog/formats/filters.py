"""Numbers, dates and plurals as the language of a text writes them (CLDR, by Babel)."""

import re
from collections.abc import Callable
from decimal import Context, Decimal, localcontext
from functools import cached_property, lru_cache
from typing import Any

from babel import Locale, UnknownLocaleError
from babel.dates import format_date, format_datetime
from babel.numbers import NumberPattern, parse_pattern

from tocsin.catalog.formats.numerals import Numerals
from tocsin.catalog.formats.values import (
    currency_code,
    date_style,
    decimal_places,
    read_amount,
    read_day,
    read_moment,
    time_zone,
)

_FORMS = ("zero", "one", "two", "few", "many", "other")
_NOT_ZERO = re.compile("[1-9]")
# Babel's own arithmetic ends at 28 digits.
_WIDE = Context(prec=80)


class Formats:
    """The filters of one locale."""

    def __init__(self, locale: Locale) -> None:
        self._locale = locale
        self._patterns: dict[tuple[str, int | None], NumberPattern] = {}

    @property
    def filters(self) -> dict[str, Callable[..., str]]:
        """Every filter by the name it has in a text."""
        return {
            "number": self.number,
            "percent": self.percent,
            "currency": self.currency,
            "date": self.date,
            "datetime": self.datetime,
            "plural": self.plural,
        }

    def number(self, value: Any, digits: Any = None) -> str:
        """Write a number, to a fixed count of decimal places if one is given."""
        pattern = self._pattern("number", None if digits is None else decimal_places(digits))
        return self._numerals.number(self._applied(pattern, read_amount(value)))

    def percent(self, value: Any, digits: Any = 0) -> str:
        """Write a share of one as a percentage: 0.25 is 25 %."""
        pattern = self._pattern("percent", decimal_places(digits))
        return self._numerals.percent(self._applied(pattern, read_amount(value)))

    def currency(self, value: Any, code: Any) -> str:
        """Write an amount of money, with the decimal places that its currency has."""
        pattern = self._pattern("currency", None)
        return self._numerals.number(self._applied(pattern, read_amount(value), currency_code(code)))

    def date(self, value: Any, style: Any = "medium", timezone: Any = None) -> str:
        """Write a day, given as a date or as a date and time."""
        day = read_day(value, None if timezone is None else time_zone(timezone))
        return self._numerals.digits(format_date(day, date_style(style), locale=self._locale))

    def datetime(self, value: Any, style: Any = "medium", timezone: Any = None) -> str:
        """Write a moment, as clocks show it at its own offset or in a time zone."""
        moment = read_moment(value, None if timezone is None else time_zone(timezone))
        written = format_datetime(moment, date_style(style), tzinfo=moment.tzinfo, locale=self._locale)
        return self._numerals.digits(written)

    def plural(self, value: Any, **words: Any) -> Any:
        """Choose the words that go with a count."""
        count = read_amount(value).normalize(_WIDE)
        form = self._locale.plural_form(count)
        return words[form] if form in words else words["other"]

    @cached_property
    def plural_forms(self) -> tuple[str, ...]:
        """The forms this language has, in the usual order."""
        return tuple(form for form in _FORMS if form == "other" or form in self._locale.plural_form.tags)

    @cached_property
    def needed_plural_forms(self) -> tuple[str, ...]:
        """The forms that everyday counts take; the others, for fractions or millions, may be left out."""
        everyday = {self._locale.plural_form(count) for count in range(201)}
        return tuple(form for form in self.plural_forms if form == "other" or form in everyday)

    @cached_property
    def _numerals(self) -> Numerals:
        return Numerals(self._locale)

    def _pattern(self, pattern_name: str, places: int | None) -> NumberPattern:
        pattern = self._patterns.get((pattern_name, places))
        if pattern is None:
            pattern = self._patterns[pattern_name, places] = self._new_pattern(pattern_name, places)
        return pattern

    def _new_pattern(self, pattern_name: str, places: int | None) -> NumberPattern:
        of_locale = {
            "number": self._locale.decimal_formats,
            "percent": self._locale.percent_formats,
            "currency": self._locale.currency_formats,
        }[pattern_name]
        pattern = parse_pattern(of_locale["standard" if pattern_name == "currency" else None].pattern)
        if places is not None:
            pattern.frac_prec = (places, places)
        return pattern

    def _applied(self, pattern: NumberPattern, amount: Decimal, currency: str | None = None) -> str:
        system = self._numerals.system
        with localcontext(_WIDE):
            written: str = pattern.apply(amount, self._locale, currency=currency, numbering_system=system)
        if amount.is_signed() and not _NOT_ZERO.search(written):
            # What rounds to nothing has no sign.
            return self._applied(pattern, abs(amount), currency)
        return written


@lru_cache(maxsize=256)
def formats_of(tag: str) -> Formats | None:
    """Give the filters of a locale, or of the closest one that CLDR knows."""
    while tag:
        try:
            return Formats(Locale.parse(tag, sep="-"))
        except (UnknownLocaleError, ValueError):
            tag = tag.rpartition("-")[0]
    return None
