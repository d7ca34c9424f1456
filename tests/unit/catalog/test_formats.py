# ruff: noqa: RUF001 - letters that look alike in other languages are meant as they stand
"""Numbers, dates and plurals in the language of the text, through a catalog as operators write it."""

import re
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from babel import Locale
from babel.localedata import locale_identifiers
from hypothesis import given
from hypothesis import strategies as st

from tocsin.catalog.catalog import Catalog
from tocsin.catalog.check import check
from tocsin.catalog.formats.filters import formats_of
from tocsin.catalog.formats.numerals import Numerals
from tocsin.catalog.formats.values import FormatError
from tocsin.catalog.load import load_catalog
from tocsin.catalog.templates.jinja import RenderError
from tocsin.domain.faults import Fault

TYPE = """\
report:
  version: 1
  category: reports
  channels: [email]
  payload:
    type: object
    properties:
      count: {type: integer}
      share: {type: number}
      money: {type: string, pattern: '^-?[0-9]+[.][0-9]{2}$', examples: ["1234.50"]}
      code: {enum: [EUR, JPY, TRY]}
      day: {type: string, format: date}
      moment: {type: string, format: date-time}
      name: {type: string}
      late: {type: [number, "null"]}
    required: [count, share, money, code, day, moment, name]
"""
PAYLOAD = {
    "count": 1_234_567,
    "share": 0.256,
    "money": "1234.50",
    "code": "EUR",
    "day": "2031-05-17",
    "moment": "2031-05-17T21:30:00Z",
    "name": "Ada",
}
EVERYTHING = (
    "{{ count | number }}|{{ -1.5 | number(2) }}|{{ share | percent }}|{{ money | currency(code) }}|"
    "{{ day | date('long') }}|{{ moment | datetime('short', timezone='Europe/Istanbul') }}"
)

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a catalog whose mails have one text in each of some locales."""

    def written(*, declaration: str = TYPE, html: str = "x", default: str = "plain", **texts: str) -> Path:
        (tmp_path / "types").mkdir(exist_ok=True)
        (tmp_path / "types" / "report.yaml").write_text(declaration, encoding="utf-8")
        for locale, text in {"en": default, **texts}.items():
            folder = tmp_path / "templates" / "report" / locale
            folder.mkdir(parents=True, exist_ok=True)
            for part, words in (("subject", "x"), ("text", text), ("html", html)):
                (folder / f"email.{part}.j2").write_text(words, encoding="utf-8")
        return tmp_path

    return written


def mail(catalog: Catalog, locale: str, part: str = "text", **changes: Any) -> str:
    return catalog.render(catalog.types["report"], "email", locale, PAYLOAD | changes).parts[part]


def faults_of(folder: Path) -> list[Fault]:
    return list(check(folder).faults)


# Number, negative number, percentage, money, day, moment.
WRITTEN = {
    "en": "1,234,567|-1.50|26%|€1,234.50|May 17, 2031|5/18/31, 12:30\u202fAM",
    "tr": "1.234.567|-1,50|%26|€1.234,50|17 Mayıs 2031|18.05.2031 00:30",
    "fa": "۱٬۲۳۴٬۵۶۷|\u200e\u2212۱٫۵۰|۲۶٪|\u200e€\xa0۱٬۲۳۴٫۵۰|۱۷ مهٔ ۲۰۳۱|۲۰۳۱/۵/۱۸،\u200f ۰:۳۰",
    "ko": "1,234,567|-1.50|26%|€1,234.50|2031년 5월 17일|31. 5. 18. AM 12:30",
    "vi": "1.234.567|-1,50|26%|1.234,50\xa0€|17 tháng 5, 2031|00:30 18/5/31",
    "ru": "1\xa0234\xa0567|-1,50|26\xa0%|1\xa0234,50\xa0€|17 мая 2031\u202fг.|18.05.2031, 00:30",
    "de-CH": "1’234’567|-1.50|26%|EUR\xa01’234.50|17. Mai 2031|18.05.31, 00:30",
    "ar-EG": "١٬٢٣٤٬٥٦٧|\u061c-١٫٥٠|٢٦٪\u061c|\u200f١٬٢٣٤٫٥٠\xa0€|"
    "١٧ مايو ٢٠٣١|١٨\u200f/٥\u200f/٢٠٣١، ١٢:٣٠ ص",
}


@pytest.mark.parametrize("locale", WRITTEN)
def test_each_language_writes_in_its_own_way(write: Write, locale: str) -> None:
    catalog = load_catalog(write(default=EVERYTHING, **{locale: EVERYTHING}))

    assert mail(catalog, locale) == WRITTEN[locale]


def test_a_text_writes_in_its_own_language_not_in_the_readers(write: Write) -> None:
    catalog = load_catalog(write(default="{{ share | number }}", tr="{{ share | number }}"))

    assert (mail(catalog, "tr-CY"), mail(catalog, "de"), mail(catalog, "fa")) == ("0,256", "0.256", "0.256")


def test_persian_text_stays_intact_around_a_number(write: Write) -> None:
    text = "سفارش \u2068{{ name }}\u2069: {{ count | number }} {{ count | plural(one='کالا', other='کالا') }}"

    catalog = load_catalog(write(fa=text))

    assert mail(catalog, "fa-IR", count=42) == "سفارش \u2068Ada\u2069: ۴۲ کالا"


@pytest.mark.parametrize(
    ("locale", "forms", "expected"),
    [
        ("en", "one='day', other='days'", {0: "days", 1: "day", 2: "days", 21: "days"}),
        ("tr", "one='gün', other='gün'", {0: "gün", 1: "gün", 5: "gün"}),
        ("ko", "other='일'", {0: "일", 1: "일", 2: "일"}),
        ("vi", "other='ngày'", {1: "ngày", 2: "ngày"}),
        ("fa", "one='یک روز', other='چند روز'", {0: "یک روز", 1: "یک روز", 2: "چند روز"}),
        (
            "ru",
            "one='день', few='дня', many='дней', other='дня'",
            {1: "день", 2: "дня", 5: "дней", 11: "дней", 21: "день", 22: "дня", 111: "дней"},
        ),
        (
            "pl",
            "one='dzień', few='dni', many='dni!', other='dnia'",
            {1: "dzień", 2: "dni", 5: "dni!", 12: "dni!", 22: "dni", 21: "dni!"},
        ),
        (
            "ar",
            "zero='z', one='o', two='t', few='f', many='m', other='x'",
            {0: "z", 1: "o", 2: "t", 3: "f", 10: "f", 11: "m", 99: "m", 100: "x", 103: "f"},
        ),
        ("fr", "one='jour', other='jours'", {0: "jour", 1: "jour", 2: "jours", 1_000_000: "jours"}),
        ("fr", "one='jour', many='de jours', other='jours'", {2: "jours", 1_000_000: "de jours"}),
    ],
)
def test_plurals_follow_the_rules_of_the_language(
    write: Write, locale: str, forms: str, expected: dict[int, str]
) -> None:
    text = f"{{{{ count | plural({forms}) }}}}"
    catalog = load_catalog(write(default=text) if locale == "en" else write(**{locale: text}))

    assert {count: mail(catalog, locale, count=count) for count in expected} == expected
    assert mail(catalog, locale, count=-1) == mail(catalog, locale, count=1)


def test_the_words_of_a_plural_may_hold_the_number(write: Write) -> None:
    text = "{{ count | plural(one='one day', other=(count | number) ~ ' days') }}"

    catalog = load_catalog(write(default=text))

    assert [mail(catalog, "en", count=count) for count in (1, 2_000)] == ["one day", "2,000 days"]


@pytest.mark.parametrize(
    ("value", "expected"), [(1.0, "day"), ("1.00", "day"), (1.5, "days"), ("0.5", "days")]
)
def test_a_count_is_what_is_shown_of_it(value: Any, expected: str) -> None:
    english = formats_of("en")
    assert english is not None
    assert english.plural(value, one="day", other="days") == expected


def test_html_is_escaped_around_what_is_written(write: Write) -> None:
    html = "{{ count | plural(one='<b>', other='a < b') }} {{ 1234 | number }} {{ name }}"

    catalog = load_catalog(write(html=html))

    written = mail(catalog, "en", "html", name="<i>")
    assert written == "<html><head></head><body>a &lt; b 1,234 &lt;i&gt;</body></html>"


def test_a_date_is_the_day_at_its_own_offset_or_in_a_zone(write: Write) -> None:
    text = "{{ moment | date('short') }} {{ moment | date('short', 'Asia/Tokyo') }} {{ day | date('short') }}"

    catalog = load_catalog(write(default=text))

    assert mail(catalog, "en") == "5/17/31 5/18/31 5/17/31"
    assert mail(catalog, "en", moment="2031-05-17t23:30:00-11:00") == "5/17/31 5/18/31 5/17/31"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{{ money | currency('EURO') }}", "'EURO' is not a currency"),
        ("{{ money | currency }}", "currency needs the code"),
        ("{{ count | number(99) }}", "digits is a whole number from 0 to 9"),
        ("{{ count | number(true) }}", "digits is a whole number from 0 to 9, not true"),
        ("{{ count | number(1, 2) }}", "number takes at most 1 arguments"),
        ("{{ count | number(places=2) }}", "number has no argument 'places'; it has: digits"),
        ("{{ count | number(*[2]) }}", "not as *list"),
        ("{{ day | date('tiny') }}", "'tiny' is not a date style; styles are short, medium, long, full"),
        ("{{ moment | datetime(timezone='Mars/Base') }}", "'Mars/Base' is not a time zone"),
        ("{% if false %}{{ day | date('yyyy') }}{% endif %}x", "'yyyy' is not a date style"),
        ("{{ count | plural('day', 'days') }}", "write plural(one=…, other=…)"),
        ("{{ count | plural(one='day') }}", "plural lacks the form 'other'"),
        ("{{ count | plural(few='x', one='day', other='days') }}", "'en' has no plural form 'few'"),
        ("{{ count | numbr }}", "no filter named 'numbr'"),
    ],
)
def test_a_wrong_use_is_found_at_check_time(write: Write, text: str, said: str) -> None:
    [fault] = faults_of(write(default="\n" + text))

    assert (fault.field, fault.code) == ("templates/report/en/email.text.j2:2", "syntax")
    assert said in fault.message


@pytest.mark.parametrize(
    ("locale", "forms", "said"),
    [
        ("ru", "one='день', other='дни'", "'few'; in 'ru' write plural(one=…, few=…, many=…, other=…)"),
        ("ko", "one='일', other='일'", "'ko' has no plural form 'one'; in 'ko' write plural(other=…)"),
        ("ar", "one='يوم', other='أيام'", "plural lacks the form 'zero'"),
        ("tlh", "other='jaj'", "CLDR has no number and date formats for 'tlh'"),
    ],
)
def test_a_language_is_asked_for_its_own_forms(write: Write, locale: str, forms: str, said: str) -> None:
    [fault] = faults_of(write(**{locale: f"{{{{ count | plural({forms}) }}}}"}))

    assert fault.field == f"templates/report/{locale}/email.text.j2:1"
    assert said in fault.message


def test_a_language_that_babel_does_not_know_can_be_spoken_without_the_filters(write: Write) -> None:
    catalog = load_catalog(write(tlh="{{ count }} jaj"))

    assert mail(catalog, "tlh", count=3) == "3 jaj"


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ("{{ name | number }}", "format", "'example' is not a number"),
        ("{{ count | currency(name) }}", "format", "'example' is not a currency"),
        ("{{ name | date }}", "format", "'example' is not a date"),
        ("{{ day | datetime }}", "format", "'2031-05-17' is not a date and time"),
        ("{{ count | date }}", "format", "a number is not a date and time"),
        ("{{ late | number }}", "undefined", "'late' is undefined"),
        ("{{ late | default(0) | number }}", "format", "null is not a number"),
        ("{{ count | plural(one=late, other=late) }}", "undefined", "'late' is undefined"),
        ("{{ [1, 2] | map('number', 77) | join }}", "format", "digits is a whole number"),
        ("{{ number }}", "unknown_variable", "'number' is not a field"),
    ],
)
def test_a_value_that_cannot_be_written_is_found_at_check_time(
    write: Write, text: str, code: str, said: str
) -> None:
    found = faults_of(write(default=text))

    assert [(fault.field, fault.code) for fault in found] == [("templates/report/en/email.text.j2:1", code)]
    assert said in found[0].message


def test_data_has_no_language(write: Write) -> None:
    declaration = TYPE.replace("  payload:", '  data:\n    total: "{{ count | number }}"\n  payload:')

    [fault] = faults_of(write(declaration=declaration))

    assert (fault.field, fault.code) == ("types/report.yaml:6", "syntax")
    assert "data is for the app and has no language" in fault.message


def test_a_value_that_cannot_be_written_when_sending_is_named_without_it(write: Write) -> None:
    catalog = load_catalog(write(default="{{ count | number }}"))

    with pytest.raises(RenderError) as raised:
        mail(catalog, "en", count="s3cret")

    place = "templates/report/en/email.text.j2:1"
    assert str(raised.value) == f"report v1 cannot be rendered: text in en: FormatError at {place}"


def test_the_filters_are_as_closed_as_the_rest_of_the_sandbox(write: Write) -> None:
    [fault] = faults_of(write(default="{{ (count | number).__class__ }}"))

    assert fault.code == "sandbox"


def test_every_language_of_babel_is_written_in_digits_of_its_own() -> None:
    for identifier in locale_identifiers():
        locale = Locale.parse(identifier)
        numerals = Numerals(locale)
        expected = locale.default_numbering_system
        assert numerals.system == (expected if expected in locale.number_symbols else "latn")
        assert re.fullmatch(r"\d{10}", numerals.digits("0123456789"))
        assert [int(digit) for digit in numerals.digits("0123456789")] == list(range(10))


@given(
    st.sampled_from(["en", "tr", "fa", "ko", "vi", "ar", "ar-EG", "ru", "hi", "de-CH", "sv", "my"]),
    st.integers(-(10**39), 10**39) | st.floats(-1e39, 1e39),
)
def test_every_number_is_written_with_its_value(locale: str, value: float) -> None:
    formats = formats_of(locale)
    assert formats is not None

    written = formats.number(value, 0)

    rounded = round(Fraction(str(value)))
    assert int("".join(sign for sign in written if sign.isdigit())) == abs(rounded)
    assert any(sign in written for sign in "-\u2212") == (rounded < 0)


@pytest.mark.parametrize("value", [True, None, [], {}, 1e41, 10**41, "1e5", "٣", " 1", "1,5", "", "9" * 41])
def test_what_is_no_plain_number_is_refused(value: Any) -> None:
    english = formats_of("en")
    assert english is not None
    for written in (english.number, english.percent, english.plural):
        with pytest.raises(FormatError):
            written(value)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("2031-06-30T23:59:60Z", "6/30/31, 11:59"),
        ("2031-05-17t09:30:00.123456789z", "5/17/31, 9:30"),
        ("2031-05-17T09:30:00+23:59", "5/17/31, 9:30"),
    ],
)
def test_every_moment_that_a_schema_allows_is_written(value: str, expected: str) -> None:
    english = formats_of("en")
    assert english is not None
    assert english.datetime(value, "short").startswith(expected)


@pytest.mark.parametrize(
    "value", ["2031-05-17T09:30:00", "2031-05-17", "now", 1, None, "0001-01-01T00:00:00+10:00"]
)
def test_what_is_no_moment_is_refused(value: Any) -> None:
    english = formats_of("en")
    assert english is not None
    with pytest.raises(FormatError):
        english.datetime(value, timezone="America/New_York")
