"""Checks how a template uses the filters for numbers, dates and plurals."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from jinja2 import TemplateSyntaxError, nodes

from tocsin.catalog.formats.filters import FILTERS, Formats
from tocsin.catalog.formats.values import (
    FormatError,
    currency_code,
    date_style,
    decimal_places,
    time_zone,
)

# The arguments of each filter, in order, each with its check.
_ARGUMENTS: Mapping[str, Mapping[str, Callable[[Any], object]]] = {
    "number": {"digits": decimal_places},
    "percent": {"digits": decimal_places},
    "currency": {"code": currency_code},
    "date": {"style": date_style, "timezone": time_zone},
    "datetime": {"style": date_style, "timezone": time_zone},
}


def check_filters(tree: nodes.Template, locale: str | None, formats: Formats | None) -> None:
    """Raise TemplateSyntaxError for a use that is wrong for every payload."""
    for use in tree.find_all(nodes.Filter):
        if use.name in FILTERS:
            for message in _problems(use, locale, formats):
                raise TemplateSyntaxError(message, use.lineno)


def _problems(use: nodes.Filter, locale: str | None, formats: Formats | None) -> Iterator[str]:
    if locale is None:
        yield f"data is for the app and has no language: {use.name} is for texts; pass the plain value"
    elif formats is None:
        yield f"{use.name} cannot be used here: CLDR has no number and date formats for {locale!r}"
    elif use.dyn_args is not None or use.dyn_kwargs is not None:
        yield f"{use.name} takes its arguments one by one, not as *list or **object"
    elif use.name == "plural":
        yield from _plural_problems(use, locale, formats)
    else:
        yield from _argument_problems(use, _ARGUMENTS[use.name])


def _plural_problems(use: nodes.Filter, locale: str, formats: Formats) -> Iterator[str]:
    forms = ", ".join(f"{form}=…" for form in formats.needed_plural_forms)
    advice = f"in {locale!r} write plural({forms})"
    given = [form for form, _ in _keywords(use)]
    if use.args:
        yield f"plural needs the name of each form; {advice}"
    if unknown := [form for form in given if form not in formats.plural_forms]:
        yield f"{locale!r} has no plural form {unknown[0]!r}; {advice}"
    if lacking := [form for form in formats.needed_plural_forms if form not in given]:
        yield f"plural lacks the form {lacking[0]!r}; {advice}"


def _argument_problems(use: nodes.Filter, known: Mapping[str, Callable[[Any], object]]) -> Iterator[str]:
    names = list(known)
    if len(use.args) > len(names):
        yield f"{use.name} takes at most {len(names)} arguments: {', '.join(names)}"
        return
    given = [*zip(names, use.args, strict=False), *_keywords(use)]
    for name, value in given:
        if name not in known:
            yield f"{use.name} has no argument {name!r}; it has: {', '.join(names)}"
        elif isinstance(value, nodes.Const):
            try:
                known[name](value.value)
            except FormatError as error:
                yield str(error)
    if use.name == "currency" and not given:
        yield "currency needs the code of the currency, as in currency('EUR')"


def _keywords(use: nodes.Filter) -> list[tuple[str, nodes.Expr]]:
    keywords = use.iter_child_nodes(only=("kwargs",))
    return [(each.key, each.value) for each in keywords if isinstance(each, nodes.Keyword)]
