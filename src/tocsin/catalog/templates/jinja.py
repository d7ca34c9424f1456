"""Jinja templates: sandboxed, strict, compiled once."""

from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from traceback import walk_tb
from typing import Any

import msgspec
from jinja2 import Environment, StrictUndefined, Template, TemplateSyntaxError, Undefined, meta, nodes
from jinja2.sandbox import ImmutableSandboxedEnvironment

from tocsin.catalog.attributes import ATTRIBUTES, USER
from tocsin.catalog.formats.filters import formats_of
from tocsin.catalog.formats.use_check import check_filters
from tocsin.catalog.templates.css import InlineError, inline_css
from tocsin.catalog.templates.plain import plain_template
from tocsin.domain.catalog import NotificationType, Payload
from tocsin.domain.errors import TocsinError
from tocsin.domain.faults import Fault


class NotTextError(Exception):
    """A template prints a value that is neither text nor a number."""


class RenderError(TocsinError):
    """A template failed on a payload; the message has the place but no value of the payload."""

    def __init__(
        self, notification_type: NotificationType, locale: str, part: str, location: str, cause: str
    ) -> None:
        super().__init__(f"{notification_type} cannot be rendered: {part} in {locale}: {cause} at {location}")


def _only_text(value: Any) -> Any:
    """Raise for a value that would print as Python: None, True, lists and objects."""
    if isinstance(value, str | int | float | Undefined) and not isinstance(value, bool):
        return value
    raise NotTextError(_ADVICE.get(type(value), f"a {type(value).__name__} is not text"))


_ADVICE = {
    type(None): "null is not text; guard it with {% if … %} or `default('…', true)`",
    bool: "true or false is not text; choose words with {{ '…' if … else '…' }}",
    list: "a list is not text; use the join filter or a loop",
    dict: "an object is not text; name one of its fields",
}


@lru_cache(maxsize=256)
def _environment(locale: str | None, *, html: bool) -> ImmutableSandboxedEnvironment:
    """Build the environment of one locale, with the filters that format for its language."""
    environment = ImmutableSandboxedEnvironment(
        autoescape=html,
        undefined=StrictUndefined,
        finalize=_only_text,
        keep_trailing_newline=False,
    )
    # A template sees the payload and nothing else.
    environment.globals.clear()
    if (formats := formats_of(locale)) is not None:
        environment.filters.update(formats.filters)
    return environment


class TemplateSource(msgspec.Struct, frozen=True):
    """The text of a template, its file and first line, and its locale, if it has one."""

    path: str
    text: str
    first_line: int = 1
    html: bool = False
    locale: str | None = None

    def location(self, line: int) -> str:
        """Return `file:line` in the catalog for a line of the template."""
        return f"{self.path}:{self.first_line + line - 1}"


class CompiledTemplate:
    """A compiled template: call it with a payload to get its text, an HTML text with its CSS inlined.

    `constant` is the text of one that reads nothing.
    """

    __slots__ = ("_context", "_plain", "_root", "_template", "attributes", "constant", "names", "source")

    def __init__(self, source: TemplateSource, template: Template, tree: nodes.Template) -> None:
        self.source = source
        self.names = _names(tree)
        self.attributes = _attributes(tree) if USER in self.names else {}
        self._template = template
        self._root = template.root_render_func
        self._context = template.new_context
        self._plain = None if source.html else plain_template(tree)
        self.constant: str | None = None
        if not any(_dynamic(tree)):
            # A fault of its CSS is raised when it is rendered, as for any other template.
            with suppress(InlineError):
                self.constant = self({})

    def __call__(self, payload: Payload) -> str:
        """Render the template; raises whatever the template raises."""
        if self.constant is not None:
            return self.constant
        if self._plain is not None and (plain := self._plain.render(payload)) is not None:
            return plain
        # `shared` passes the payload without a copy; the sandbox keeps templates from changing it.
        text = "".join(self._root(self._context(payload, shared=True)))  # type: ignore[arg-type]
        return inline_css(text) if self.source.html else text

    def render(self, notification_type: NotificationType, locale: str, part: str, payload: Payload) -> str:
        """Render the template, or raise RenderError."""
        if self._plain is not None and (plain := self._plain.render(payload)) is not None:
            return plain
        try:
            return self(payload)
        except Exception as error:  # noqa: BLE001 - a template can raise anything
            failure = RenderError(
                notification_type, locale, part, self.location_of(error), type(error).__name__
            )
        # Raised outside the handler so that the original is not chained: its text may hold payload values.
        raise failure

    def location_of(self, error: BaseException) -> str:
        """Return `file:line` of the template in which an error was raised."""
        generated = [
            line
            for frame, line in walk_tb(error.__traceback__)
            if frame.f_code.co_filename == self.source.path
        ]
        line = self._template.get_corresponding_lineno(generated[-1]) if generated else 1
        return self.source.location(line)


def parse_template(source: TemplateSource) -> nodes.Template:
    """Parse a template, or raise TemplateSyntaxError."""
    return _environment(source.locale, html=source.html).parse(source.text)


def compile_template(source: TemplateSource) -> CompiledTemplate | Fault:
    """Compile a template, or return its syntax fault."""
    environment = _environment(source.locale, html=source.html)
    try:
        tree = parse_template(source)
        check_filters(tree, source.locale, formats_of(source.locale))
        _check_supported(tree, environment)
        code = environment.compile(tree, name=source.path, filename=source.path)
    except TemplateSyntaxError as error:
        return Fault(field=source.location(error.lineno), code="syntax", message=str(error.message))
    return CompiledTemplate(source, Template.from_code(environment, code, environment.globals), tree)


def _check_supported(tree: nodes.Template, environment: Environment) -> None:
    """Raise for errors that Jinja would report only at render time."""
    for node in tree.find_all((nodes.Include, nodes.Import, nodes.FromImport, nodes.Extends)):
        raise TemplateSyntaxError("a template cannot include, import or extend another", node.lineno)
    for use in tree.find_all((nodes.Filter, nodes.Test)):
        known = environment.filters if isinstance(use, nodes.Filter) else environment.tests
        if use.name not in known:
            kind = type(use).__name__.lower()
            message = f"no {kind} named {use.name!r}; the {kind}s are: {', '.join(sorted(known))}"
            raise TemplateSyntaxError(message, use.lineno)


def _names(tree: nodes.Template) -> dict[str, int]:
    """Return each payload field that a template reads, with the first line that reads it."""
    names: dict[str, int] = {}
    undeclared = meta.find_undeclared_variables(tree)
    for name in sorted(tree.find_all(nodes.Name), key=lambda name: name.lineno):
        if name.ctx == "load" and name.name in undeclared:
            names.setdefault(name.name, name.lineno)
    return names


def _attributes(tree: nodes.Template) -> dict[str, int]:
    """Return each attribute of the user that a template names, with the first line that names it."""
    names: dict[str, int] = {}
    for use in tree.find_all((nodes.Getattr, nodes.Getitem)):
        match _member(use):
            case (nodes.Getattr() | nodes.Getitem() as whole, name):
                match _member(whole):
                    case (nodes.Name(name=user), section) if (user, section) == (USER, ATTRIBUTES):
                        names[name] = min(use.lineno, names.get(name, use.lineno))
    return names


def _member(use: nodes.Node) -> tuple[nodes.Node, str] | None:
    """Return what an expression reads a member of, and the name of the member."""
    match use:
        case nodes.Getattr(node=node, attr=name) | nodes.Getitem(node=node, arg=nodes.Const(value=str(name))):
            return node, name
        case _:
            return None


def _dynamic(tree: nodes.Template) -> Iterator[nodes.Node]:
    """List the nodes that are not constant text."""
    for node in tree.iter_child_nodes():
        if not isinstance(node, nodes.Output):
            yield node
        else:
            yield from (part for part in node.nodes if not isinstance(part, nodes.TemplateData))
