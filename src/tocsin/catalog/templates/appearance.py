"""How a push looks: its texts, and what each of them may come to."""

import re
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

import msgspec

from tocsin.catalog.templates.jinja import RenderError, Text
from tocsin.domain.catalog import NotificationType, Payload
from tocsin.domain.delivery.message import DEFAULT_APPEARANCE, PushAppearance

FIXED = ("push_type", "severity")
"""Fields of the section that are words of their own and no templates."""

_BADGE = re.compile(r"[0-9]{1,5}", re.ASCII)
_URI = re.compile(r"[a-zA-Z][a-zA-Z0-9+.\-]*:\S+")
_RESOURCE = re.compile(r"[a-z][a-z0-9_]*")
_LABEL = re.compile(r"[a-zA-Z0-9\-_.~%]{1,50}")
_SPACE = re.compile(r"\s")


class AppearanceTexts(msgspec.Struct, frozen=True):
    """The compiled texts of a section `push`, and the appearance without them."""

    fixed: PushAppearance
    texts: tuple[tuple[str, Text], ...]

    def render(self, notification_type: NotificationType, locale: str, payload: Payload) -> PushAppearance:
        """Render the appearance of one push; a field that comes out blank is left out."""
        if not self.texts:
            return self.fixed
        fields: dict[str, Any] = {"push_type": self.fixed.push_type, "severity": self.fixed.severity}
        for field, text in self.texts:
            if written := _written(notification_type, locale, field, text, payload):
                fields[field] = int(written) if field == "badge" else written
        return PushAppearance(**fields)


def fixed_appearance(section: Mapping[str, str]) -> PushAppearance:
    """Take the fixed words of a section `push`."""
    words = {field: section[field] for field in FIXED if field in section}
    return msgspec.convert(words, PushAppearance) if words else DEFAULT_APPEARANCE


def appearance_complaint(field: str, written: str) -> str | None:
    """Say what is wrong with what a text came to; blank is always right."""
    value = written.strip()
    check = _CHECKS.get(field)
    return check(value) if value and check else None


def _written(
    notification_type: NotificationType, locale: str, field: str, text: Text, payload: Payload
) -> str:
    try:
        written = text(payload).strip()
    except Exception as error:  # noqa: BLE001 - a template can raise anything
        cause, place = type(error).__name__, text.place_of(error)
    else:
        complaint = _no_badge(written) if field == "badge" and written else None
        if complaint is None:
            return written
        cause, place = complaint, text.source.place(1)
    # Raised out here so that the original is not chained: its words may hold values of the payload.
    raise RenderError(notification_type, locale, f"push.{field}", place, cause)


def _no_badge(value: str) -> str | None:
    return None if _BADGE.fullmatch(value) else "the badge must be a whole number from 0 to 99999"


def _no_https(value: str) -> str | None:
    return None if _is_https(value) else "must be an absolute https address"


def _no_icon(value: str) -> str | None:
    if _is_https(value) or _RESOURCE.fullmatch(value):
        return None
    return "must be an absolute https address, or the name of a drawable in the Android app"


def _no_uri(value: str) -> str | None:
    if _URI.fullmatch(value):
        return None
    return "must be an absolute URI with its scheme, such as myapp://orders/7 or https://example.com/orders/7"


def _no_route(value: str) -> str | None:
    return None if value.startswith("/") and not _SPACE.search(value) else "must be a path that begins with /"


def _no_label(value: str) -> str | None:
    if _LABEL.fullmatch(value):
        return None
    return "must be 1 to 50 letters, digits or any of - _ . ~ % (FCM's rule)"


def _is_https(value: str) -> bool:
    try:
        parts = urlsplit(value)
        return parts.scheme == "https" and bool(parts.hostname) and not _SPACE.search(value)
    except ValueError:
        return False


_CHECKS: Mapping[str, Callable[[str], str | None]] = {
    "badge": _no_badge,
    "image": _no_https,
    "icon": _no_icon,
    "deep_link": _no_uri,
    "route": _no_route,
    "analytics_label": _no_label,
}
