"""How a push or an inbox item looks: the templates of its section, and what their values must be."""

import re
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

import msgspec

from tocsin.catalog.templates.jinja import CompiledTemplate, RenderError
from tocsin.domain.catalog import NotificationType, Payload
from tocsin.domain.delivery.message import DEFAULT_APPEARANCE, PushAppearance, Severity

SEVERITIES: Mapping[str, Severity] = {
    "info": "info",
    "success": "info",
    "warn": "warning",
    "warning": "warning",
    "error": "critical",
    "critical": "critical",
}
"""What a severity may render as: Tocsin's own names, and those that envelopes of fisa have."""

_CONSTANTS = ("push_type", "severity")


class AppearanceTemplates(msgspec.Struct, frozen=True):
    """The compiled templates of a section `push` or `inbox`, and the appearance from its constants alone."""

    constants: PushAppearance
    templates: tuple[tuple[str, CompiledTemplate], ...]
    section: str = "push"

    def render(self, notification_type: NotificationType, locale: str, payload: Payload) -> PushAppearance:
        """Render the appearance of one message; a field that renders blank is left out."""
        if not self.templates:
            return self.constants
        fields: dict[str, Any] = {name: getattr(self.constants, name) for name in _CONSTANTS}
        for field, template in self.templates:
            part = f"{self.section}.{field}"
            text = template.render(notification_type, locale, part, payload).strip()
            convert = _CONVERTED.get(field)
            if convert and (problem := appearance_problem(field, text)):
                raise RenderError(notification_type, locale, part, template.source.location(1), problem)
            if text:
                fields[_FIELDS.get(field, field)] = convert(text) if convert else text
        return PushAppearance(**fields)


def constant_appearance(section: Mapping[str, str]) -> PushAppearance:
    """Build the appearance from the constants of a section `push`."""
    constants = {field: section[field] for field in _CONSTANTS if is_constant(field, section.get(field))}
    return msgspec.convert(constants, PushAppearance) if constants else DEFAULT_APPEARANCE


def is_constant(field: str, text: str | None) -> bool:
    """Return whether a field of the section is a constant; all others are templates."""
    return text is not None and (
        field == "push_type" or (field == "severity" and text in SEVERITIES.values())
    )


def appearance_problem(field: str, text: str) -> str | None:
    """Return what is wrong with the rendered text of a field; blank is always allowed."""
    value = text.strip()
    is_valid, problem = _RULES.get(field, _ANYTHING)
    return None if not value or is_valid(value) else problem


def _is_https(value: str) -> bool:
    try:
        parts = urlsplit(value)
        return parts.scheme == "https" and bool(parts.hostname) and not re.search(r"\s", value)
    except ValueError:
        return False


def _is_icon(value: str) -> bool:
    return _is_https(value) or bool(re.fullmatch(r"[a-z][a-z0-9_]*", value))


def _is_link(value: str) -> bool:
    """Return whether a page may lead there: a link with a scheme that runs code would be a script."""
    if re.match(r"/(?!/)", value):
        return not re.search(r"\s", value)
    scheme = re.match(r"([a-zA-Z][a-zA-Z0-9+.\-]*):\S+\Z", value)
    return scheme is not None and scheme[1].lower() not in _SCRIPTS


_SCRIPTS = frozenset({"javascript", "data", "vbscript"})
_FIELDS = {"link": "deep_link"}
"""The fields of the appearance that the section `inbox` has other names for."""
_CONVERTED: Mapping[str, Callable[[str], Any]] = {"badge": int, "severity": SEVERITIES.__getitem__}
_Rule = tuple[Callable[[str], object], str]
_ANYTHING: _Rule = (bool, "")
_RULES: Mapping[str, _Rule] = {
    "badge": (
        re.compile(r"[0-9]{1,5}", re.ASCII).fullmatch,
        "the badge must be a whole number from 0 to 99999",
    ),
    "severity": (SEVERITIES.__contains__, f"must be one of {', '.join(SEVERITIES)}"),
    "image": (_is_https, "must be an absolute https address"),
    "icon": (_is_icon, "must be an absolute https address, or the name of a drawable in the Android app"),
    "deep_link": (
        re.compile(r"[a-zA-Z][a-zA-Z0-9+.\-]*:\S+").fullmatch,
        "must be an absolute URI with its scheme, such as myapp://orders/7 or https://example.com/orders/7",
    ),
    "link": (_is_link, "must be a path that begins with /, or an absolute URI that runs no script"),
    "route": (re.compile(r"/\S*").fullmatch, "must be a path that begins with /"),
    "analytics_label": (
        re.compile(r"[a-zA-Z0-9\-_.~%]{1,50}").fullmatch,
        "must be 1 to 50 letters, digits or any of - _ . ~ % (FCM's rule)",
    ),
}
