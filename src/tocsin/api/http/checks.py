"""Rules for single texts of a body: each says what is wrong, or nothing."""

from typing import Annotated

from msgspec import Meta

from tocsin.domain.people.locale import normalize
from tocsin.domain.timing.windows import Window
from tocsin.domain.timing.zones import is_known_timezone

ShortText = Annotated[str, Meta(min_length=1, max_length=128, pattern=r"^[^\x00-\x1f\x7f]+\Z")]


def not_blank(text: str) -> str | None:
    """Ask for more than spaces."""
    return None if text.strip() else "must not be blank"


def known_locale(tag: str) -> str | None:
    """Ask for a text that is written like a locale."""
    return None if normalize(tag) else "must be a language tag such as en, tr-TR or zh-Hant-TW"


def known_timezone(name: str) -> str | None:
    """Ask for one of the IANA names."""
    return None if is_known_timezone(name) else "must be an IANA time zone such as Europe/Istanbul"


def readable_window(text: str) -> str | None:
    """Ask for hours of the day, or for all of them."""
    try:
        Window.parse(text)
    except ValueError as error:
        return str(error)
    return None
