"""Rendering of templates; every value is escaped."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from tocsin.api.dashboard.assets import asset_url
from tocsin.api.dashboard.sessions import Session
from tocsin.api.http.requests import ApiRequest

TEMPLATES = Path(__file__).parent / "templates"
_WITHOUT_DECIMALS = 100
_ONE_DECIMAL = 10
_MINUTE = 60
_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


@cache
def make_environment(*folders: Path) -> Environment:
    """Build the environment for the templates of some folders, the first of which comes first."""
    environment = Environment(
        loader=FileSystemLoader(folders),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.globals["asset"] = asset_url
    environment.filters |= {
        "code_spans": code_spans,
        "input_moment": input_moment,
        "latency": latency,
        "moment": moment,
        "span": span,
        "ago": ago,
        "number": number,
        "path_part": path_part,
        "pretty": pretty,
        "words": words,
    }
    return environment


def render(request: ApiRequest, session: Session | None, template: str, context: Mapping[str, Any]) -> str:
    """Render a template for a request.

    Beside the context it has `session`, `holder` and `may` (of whoever has signed in), `pages` (the
    navigation), `path` and `now`.
    """
    holder = session.holder if session else None
    pages: Sequence[Any] = request.app.state.dashboard_pages
    return (
        make_environment(TEMPLATES)
        .get_template(template)
        .render(
            **context,
            session=session,
            holder=holder,
            pages=[page for page in pages if holder and page.access.permits(holder)],
            path=request.scope["path"],
            now=request.now(),
        )
    )


def render_part(template: str, context: Mapping[str, Any], now: datetime) -> str:
    """Render a part of a page that is the same for everybody who may see it."""
    nobody = {"session": None, "holder": None, "pages": (), "path": ""}
    return make_environment(TEMPLATES).get_template(template).render(**nobody, **context, now=now)


def moment(at: datetime) -> str:
    """Return a moment as people read it, in UTC."""
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S}"


def input_moment(at: datetime | None) -> str:
    """Return a moment as the field of a form has it."""
    try:
        return "" if at is None else f"{at.astimezone(UTC):%Y-%m-%dT%H:%M}"
    except OverflowError:
        # At the ends of the calendar, in another zone.
        return ""


def span(seconds: float | timedelta) -> str:
    """Return a length of time in its two largest units."""
    left = int(seconds.total_seconds() if isinstance(seconds, timedelta) else seconds)
    if left < 1:
        return "0 s"
    parts: list[str] = []
    for size, unit in _UNITS:
        count, left = divmod(left, size)
        if count or parts:
            parts.append(f"{count} {unit}")
    return " ".join(part for part in parts[:2] if not part.startswith("0 "))


def latency(seconds: float) -> str:
    """Return a time in the unit that suits it, with three digits where it is short."""
    if seconds >= _MINUTE:
        return span(seconds)
    value, unit = (seconds, "s") if seconds >= 1 else (seconds * 1_000, "ms")
    return f"{value:.{2 if value < _ONE_DECIMAL else 1 if value < _WITHOUT_DECIMALS else 0}f} {unit}"


def ago(at: datetime, now: datetime) -> str:
    """Return how long ago a moment was, or how far ahead it is."""
    seconds = (now - at).total_seconds()
    return f"{span(seconds)} ago" if seconds >= 1 else f"in {span(-seconds)}" if seconds <= -1 else "now"


def code_spans(text: str) -> Markup:
    """Return a text with what stands between backticks marked as code; everything is escaped."""
    parts = (
        Markup("<code>{}</code>").format(part) if odd % 2 else escape(part)
        for odd, part in enumerate(text.split("`"))
    )
    return Markup("").join(parts)


def number(value: float) -> str:
    """Return a number with its thousands apart, and decimals only where they count."""
    return f"{value:,.0f}" if value == int(value) or abs(value) >= _WITHOUT_DECIMALS else f"{value:,.2f}"


def path_part(value: object) -> str:
    """Return a value as one part of a path."""
    return quote(str(value), safe="")


def pretty(value: Any) -> str:
    """Return a value as indented JSON."""
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)


def words(name: str) -> str:
    """Return a name of several words as a phrase."""
    return name.replace("_", " ")
