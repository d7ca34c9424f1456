"""Checks of fields that a type cannot express; the server runs them when it decodes a request."""

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, ClassVar, TypeAlias

import msgspec
from msgspec import Meta

from tocsin.domain.faults import Fault
from tocsin.domain.people.locale import NO_LOCALE, normalize
from tocsin.domain.timing.windows import Window

Check: TypeAlias = Callable[[str], str | None]
PartCheck: TypeAlias = Callable[[Mapping[str, Any]], Sequence[Fault]]

ShortText = Annotated[str, Meta(min_length=1, max_length=128, pattern=r"^[^\x00-\x1f\x7f]+\Z")]


class Checked(msgspec.Struct, frozen=True):
    """A request with checks by field: each returns what is wrong with a text, or None.

    Those of `part_checks` list what is wrong with the parts of an object, each with the name of the part.
    """

    checks: ClassVar[Mapping[str, Check]] = {}
    part_checks: ClassVar[Mapping[str, PartCheck]] = {}

    def passes(self) -> bool:
        """Return whether every check passes."""
        texts = ((check, getattr(self, name)) for name, check in self.checks.items())
        if any(check(text) for check, text in texts if isinstance(text, str)):
            return False
        objects = ((check, getattr(self, name)) for name, check in self.part_checks.items())
        return not any(check(value) for check, value in objects if value is not None)


def not_blank(text: str) -> str | None:
    """Require a character that is not a space."""
    return None if text.strip() else "must not be blank"


def known_locale(tag: str) -> str | None:
    """Require a BCP 47 language tag."""
    return None if normalize(tag) else NO_LOCALE


def known_timezone(name: str) -> str | None:
    """Require an IANA time zone name."""
    from tocsin.domain.timing.zones import is_known_timezone  # noqa: PLC0415 - no client needs zoneinfo

    return None if is_known_timezone(name) else "must be an IANA time zone such as Europe/Istanbul"


def readable_window(text: str) -> str | None:
    """Require hours of the day, such as 08:00-23:00, or `always`."""
    try:
        Window.parse(text)
    except ValueError as error:
        return str(error)
    return None
