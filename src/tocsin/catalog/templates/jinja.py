"""Jinja texts: sandboxed, strict, compiled once."""

from collections.abc import Iterator
from functools import lru_cache
from traceback import walk_tb
from typing import Any

import msgspec
from jinja2 import Environment, StrictUndefined, Template, TemplateSyntaxError, Undefined, meta, nodes
from jinja2.sandbox import ImmutableSandboxedEnvironment

from tocsin.catalog.formats.filters import Formats, formats_of
from tocsin.catalog.formats.use_check import refuse_misuse
from tocsin.domain.catalog import NotificationType, Payload
from tocsin.domain.errors import TocsinError
from tocsin.domain.faults import Fault


class NotTextError(Exception):
    """A value was written into a text that is no text."""


class RenderError(TocsinError):
    """A template failed on a payload; says where, and nothing of what the payload holds."""

    def __init__(
        self, notification_type: NotificationType, locale: str, part: str, place: str, cause: str
    ) -> None:
        self.type = notification_type.name
        self.version = notification_type.version
        self.locale = locale
        self.part = part
        self.place = place
        self.cause = cause
        super().__init__(f"{notification_type} cannot be rendered: {part} in {locale}: {cause} at {place}")


def _only_text(value: Any) -> Any:
    """Refuse what Python would write in its own way: None, True, lists and objects."""
    if isinstance(value, str | int | float | Undefined) and not isinstance(value, bool):
        return value
    raise NotTextError(_ADVICE.get(type(value), f"a {type(value).__name__} is no text"))


_ADVICE = {
    type(None): "a null is no text; guard it with {% if … %} or `default('…', true)`",
    bool: "true or false is no text; choose words with {{ '…' if … else '…' }}",
    list: "a list is no text; use the join filter or a loop",
    dict: "an object is no text; name one of its fields",
}


@lru_cache(maxsize=256)
def _environment(locale: str | None, *, html: bool) -> ImmutableSandboxedEnvironment:
    """Make the environment of one locale, which binds the filters that write as its language does."""
    environment = ImmutableSandboxedEnvironment(
        autoescape=html,
        undefined=StrictUndefined,
        finalize=_only_text,
        keep_trailing_newline=False,
    )
    # The payload is all that a text may speak of.
    environment.globals.clear()
    if (formats := _formats(locale)) is not None:
        environment.filters.update(formats.filters)
    return environment


def _formats(locale: str | None) -> Formats | None:
    return None if locale is None else formats_of(locale)


class TemplateSource(msgspec.Struct, frozen=True):
    """The words of a template, the place they stand, and the language they are in, if any."""

    path: str
    text: str
    first_line: int = 1
    html: bool = False
    locale: str | None = None

    def place(self, line: int) -> str:
        """Name a line of the template by its place in the catalog."""
        return f"{self.path}:{self.first_line + line - 1}"


class Text:
    """A compiled template: call it with a payload to get its text."""

    __slots__ = ("_constant", "_context", "_root", "_template", "names", "source")

    def __init__(self, source: TemplateSource, template: Template, tree: nodes.Template) -> None:
        self.source = source
        self.names = _names(tree)
        self._template = template
        self._root = template.root_render_func
        self._context = template.new_context
        is_constant = not any(_dynamic(tree))
        self._constant = "".join(self._root(self._context())) if is_constant else None

    def __call__(self, payload: Payload) -> str:
        """Render; whatever the template raises comes through as it is."""
        if self._constant is not None:
            return self._constant
        # `shared` hands the payload over uncopied; the sandbox keeps templates from changing it.
        return "".join(self._root(self._context(payload, shared=True)))  # type: ignore[arg-type]

    def place_of(self, error: BaseException) -> str:
        """Find the line of the template in which an error arose."""
        generated = [
            line
            for frame, line in walk_tb(error.__traceback__)
            if frame.f_code.co_filename == self.source.path
        ]
        line = self._template.get_corresponding_lineno(generated[-1]) if generated else 1
        return self.source.place(line)


def compile_text(source: TemplateSource) -> Text | Fault:
    """Compile a template, or say what is wrong with it."""
    environment = _environment(source.locale, html=source.html)
    try:
        tree = environment.parse(source.text)
        refuse_misuse(tree, source.locale, _formats(source.locale))
        _refuse_unsupported(tree, environment)
        code = environment.compile(tree, name=source.path, filename=source.path)
    except TemplateSyntaxError as error:
        return Fault(field=source.place(error.lineno), code="syntax", message=str(error.message))
    return Text(source, Template.from_code(environment, code, environment.globals), tree)


def _refuse_unsupported(tree: nodes.Template, environment: Environment) -> None:
    """Refuse what Jinja itself would notice only when a text is rendered."""
    for node in tree.find_all((nodes.Include, nodes.Import, nodes.FromImport, nodes.Extends)):
        raise TemplateSyntaxError("a template cannot include, import or extend another", node.lineno)
    for filtering in tree.find_all(nodes.Filter):
        if filtering.name not in environment.filters:
            raise TemplateSyntaxError(f"no filter named {filtering.name!r}", filtering.lineno)
    for testing in tree.find_all(nodes.Test):
        if testing.name not in environment.tests:
            raise TemplateSyntaxError(f"no test named {testing.name!r}", testing.lineno)


def _names(tree: nodes.Template) -> dict[str, int]:
    """Give each name read from the payload with the first line it stands on."""
    names: dict[str, int] = {}
    undeclared = meta.find_undeclared_variables(tree)
    for name in sorted(tree.find_all(nodes.Name), key=lambda name: name.lineno):
        if name.ctx == "load" and name.name in undeclared:
            names.setdefault(name.name, name.lineno)
    return names


def _dynamic(tree: nodes.Template) -> Iterator[nodes.Node]:
    """Give whatever is more than fixed words."""
    for node in tree.iter_child_nodes():
        if not isinstance(node, nodes.Output):
            yield node
        else:
            yield from (word for word in node.nodes if not isinstance(word, nodes.TemplateData))
