"""Checks where payload values land in an HTML template: escaping protects text and quoted attributes only."""

import re
from collections.abc import Iterator, Mapping, Sequence
from html.parser import HTMLParser
from itertools import chain
from typing import Any, Literal, TypeAlias

import msgspec
from jinja2 import nodes
from jsonschema_rs import dereference

from tocsin.catalog.examples import example_payloads
from tocsin.catalog.schema import part_of
from tocsin.catalog.templates.jinja import TemplateSource, parse_template
from tocsin.domain.digest import COUNT, ITEMS
from tocsin.domain.faults import Fault

Place: TypeAlias = Literal[
    "text", "quoted", "style", "url", "unquoted", "handler", "script", "tag", "comment"
]

_MARKER = re.compile(r"tcsnmrk([0-9]+)x")
_URL_ATTRIBUTES = frozenset(
    {
        *("href", "src", "action", "formaction", "background", "cite", "data", "longdesc", "manifest"),
        *("ping", "poster", "srcset", "xlink:href"),
    }
)
_SAFE_START = re.compile(r"(?:https?://[^/\s?#]+[/?#]|(?:mailto|tel|sms):)", re.IGNORECASE)
_RAW_TEXT: Mapping[str, Place] = {"style": "style", "script": "script"}
# They mark their result as markup that needs no escaping, or build such markup.
_MARKUP_FILTERS = frozenset({"safe", "tojson", "urlize", "xmlattr"})
_NUMBER_FILTERS = frozenset({"abs", "count", "float", "int", "length", "round", "wordcount"})
_SAME_VALUE_FILTERS = frozenset(
    {"capitalize", "d", "default", "e", "escape", "lower", "string", "trim", "upper"}
)
_ALWAYS_REFUSED: Mapping[Place, str] = {
    "unquoted": "is in an attribute without quotes; write quotes around the value",
    "handler": "is in an event handler, where it can become script; remove the handler",
    "script": "is in a script, where escaping does not help; remove the script",
    "tag": "is within a tag but outside of an attribute's value; write the attribute's name in the template",
    "comment": "is in a comment, which some mail programs read as markup; move it out",
}
# Values that a schema must refuse for a field that is used in such a place.
_PROBES: Mapping[Place, Sequence[str]] = {
    "style": ["@x", "{", "}", ";a:b", "(", ")", "<", "\\", "/*", "'", '"'],
    "url": ["javascript:x", "JavaScript:x", " javascript:x", "data:x", "vbscript:x"],
}
_NARROW: Mapping[Place, str] = {
    "style": "is in a style, where it can break the CSS of the mail; narrow it by `enum:` or by a "
    "`pattern:` such as ^#[0-9a-f]{6}$",
    "url": "can be any address there, even a script; begin the attribute with https://<host>/, or give the "
    "field `pattern: ^https://`",
}


class _Use(msgspec.Struct, frozen=True):
    """A printed expression, and the place and the text before it in which it landed."""

    expression: nodes.Expr
    place: Place
    before: str


def html_faults(source: TemplateSource, payload_schema: Mapping[str, Any]) -> list[Fault]:
    """List the expressions of an HTML template that put payload values where escaping does not protect."""
    tree = parse_template(source)
    origins = _Origins(dereference(dict(payload_schema)), tree)
    found: dict[tuple[int, str], Fault] = {}
    for line, problem in chain(_unescaped(tree), _misplaced(tree, origins)):
        fault = Fault(field=source.location(line), code="unsafe_html", message=problem)
        found.setdefault((line, problem), fault)
    return list(found.values())


def _unescaped(tree: nodes.Template) -> Iterator[tuple[int, str]]:
    for use in tree.find_all(nodes.Filter):
        if use.name == "safe":
            yield use.lineno, "the filter safe switches escaping off; write the markup in the template"
    for block in tree.find_all(nodes.ScopedEvalContextModifier):
        yield block.lineno, "escaping cannot be switched off or on in a part of a template; remove the block"


def _misplaced(tree: nodes.Template, origins: "_Origins") -> Iterator[tuple[int, str]]:
    for forced in _each_branch(tree):
        text = _Text(forced)
        text.add(tree.body)
        for use in text.uses():
            if (problem := _problem(use, origins)) is not None:
                yield use.expression.lineno, problem


def _problem(use: _Use, origins: "_Origins") -> str | None:
    """Return why an expression may not be printed in its place."""
    if use.place == "text" or _is_constant(use.expression):
        return None
    subject = origins.subject(use.expression)
    if use.place in _ALWAYS_REFUSED:
        return f"{subject} {_ALWAYS_REFUSED[use.place]}"
    if origins.may_be_markup(use.expression):
        return f"{subject} is in an attribute but may contain markup; print a field of the payload there"
    if use.place == "quoted" or (use.place == "url" and _SAFE_START.match(use.before)):
        return None
    if origins.refuses_hostile(use.expression, use.place):
        return None
    return f"{subject} {_NARROW[use.place]}"


def _is_constant(expression: nodes.Node) -> bool:
    match expression:
        case nodes.CondExpr(expr1=first, expr2=second):
            return _is_constant(first) and (second is None or _is_constant(second))
        case _:
            return isinstance(expression, nodes.Const)


class _Origins:
    """Finds the schema of the value that an expression prints."""

    def __init__(self, schema: Any, tree: nodes.Template) -> None:
        of_digest = {ITEMS: {"type": "array", "items": schema}, COUNT: {"type": "integer"}}
        self._root = schema
        self._names: dict[str, Any] = {**of_digest, **schema.get("properties", {})}
        self._blocks = {
            block.target.name
            for block in tree.find_all(nodes.AssignBlock)
            if isinstance(block.target, nodes.Name)
        }
        assigned: list[tuple[nodes.Node, Any]] = [
            *((loop.target, self._items(loop.iter)) for loop in tree.find_all(nodes.For)),
            *((each.target, self._schema(each.node)) for each in tree.find_all(nodes.Assign)),
            *((block.target, None) for block in tree.find_all(nodes.AssignBlock)),
            *((name, None) for macro in tree.find_all(nodes.Macro) for name in macro.args),
        ]
        for target, of_value in assigned:
            for name in target.find_all(nodes.Name) if not isinstance(target, nodes.Name) else [target]:
                # A name that is given values of two origins has neither's guarantees.
                known = name.name not in self._names and isinstance(target, nodes.Name)
                self._names[name.name] = of_value if known else None

    def subject(self, expression: nodes.Expr) -> str:
        """Return what to call an expression: its first field of the payload."""
        names = [expression] if isinstance(expression, nodes.Name) else list(expression.find_all(nodes.Name))
        return repr(names[0].name) if names else "a value"

    def may_be_markup(self, expression: nodes.Expr) -> bool:
        """Return whether an expression may print text that is not escaped."""
        filters = {use.name for use in _with_self(expression, nodes.Filter)}
        names = {name.name for name in _with_self(expression, nodes.Name)}
        macros = any(isinstance(call.node, nodes.Name) for call in _with_self(expression, nodes.Call))
        return macros or bool(filters & _MARKUP_FILTERS or names & self._blocks)

    def refuses_hostile(self, expression: nodes.Expr, place: Place) -> bool:
        """Return whether the schema of what an expression prints refuses what does harm in a place."""
        schema = self._schema(expression)
        if schema is None:
            return False
        compiled = part_of(self._root, schema)
        examples = ["", *(value for value in example_payloads(schema) if isinstance(value, str))]
        before = (probe + value for probe in _PROBES[place] for value in examples)
        after = (value + probe for probe in _PROBES[place] for value in examples)
        # The end of an address does no harm.
        hostile = before if place == "url" else chain(before, after)
        return not any(compiled.accepts(text) for text in hostile)

    def _schema(self, expression: nodes.Node | None) -> Any:
        """Return the schema of an expression's value, or None where nothing is known about it."""
        match expression:
            case nodes.Const(value=value):
                return {"const": value}
            case nodes.Name(name=name):
                return self._names.get(name)
            case (
                nodes.Getattr(node=node, attr=name)
                | nodes.Getitem(node=node, arg=nodes.Const(value=str(name)))
            ):
                return _property(self._schema(node), name)
            case nodes.Getitem(node=node, arg=nodes.Const(value=int())):
                return self._items(node)
            case nodes.CondExpr(expr1=first, expr2=second):
                return self._either(first, second)
            case nodes.Or(left=first, right=second):
                return self._either(first, second)
            case nodes.Filter(name=name) if name in _NUMBER_FILTERS:
                return {"type": "number"}
            case nodes.Filter(node=node, name=name, args=arguments) if name in _SAME_VALUE_FILTERS:
                return self._either(node, *(arguments[:1] if name in {"d", "default"} else []))
            case _:
                return None

    def _either(self, *expressions: nodes.Node | None) -> Any:
        schemas = [self._schema(each) for each in expressions if each is not None]
        return None if None in schemas else {"anyOf": schemas}

    def _items(self, expression: nodes.Node) -> Any:
        schema = self._schema(expression)
        return schema.get("items") if isinstance(schema, Mapping) else None


def _with_self(expression: nodes.Expr, kind: type[Any]) -> Iterator[Any]:
    if isinstance(expression, kind):
        yield expression
    yield from expression.find_all(kind)


def _property(schema: Any, name: str) -> Any:
    return schema.get("properties", {}).get(name) if isinstance(schema, Mapping) else None


def _each_branch(tree: nodes.Template) -> Iterator[Mapping[int, int]]:
    """List choices of branches by node which together reach every branch; by default the first is taken."""
    yield {}
    yield from _branches_below(tree, {})


def _branches_below(node: nodes.Node, forced: Mapping[int, int]) -> Iterator[Mapping[int, int]]:
    alternatives = _alternatives(node)
    if alternatives is None:
        for child in node.iter_child_nodes():
            yield from _branches_below(child, forced)
        return
    for index, body in enumerate(alternatives):
        chosen = {**forced, id(node): index}
        if index:
            yield chosen
        for child in body:
            yield from _branches_below(child, chosen)


def _alternatives(node: nodes.Node) -> list[list[nodes.Node]] | None:
    match node:
        case nodes.If():
            return [node.body, *(each.body for each in node.elif_), node.else_]
        case nodes.For():
            return [node.body, node.else_]
        case _:
            return None


class _Text:
    """The text of a template with a marker for each printed expression, along chosen branches."""

    def __init__(self, chosen: Mapping[int, int]) -> None:
        self._chosen = chosen
        self._parts: list[str] = []
        self._expressions: list[nodes.Expr] = []

    def add(self, body: Sequence[nodes.Node]) -> None:
        """Add the text of nodes."""
        for node in body:
            if isinstance(node, nodes.TemplateData):
                self._parts.append(node.data)
            elif isinstance(node, nodes.Output):
                self.add(node.nodes)
            elif isinstance(node, nodes.Expr):
                self._parts.append(f"tcsnmrk{len(self._expressions)}x")
                self._expressions.append(node)
            elif (alternatives := _alternatives(node)) is not None:
                self.add(alternatives[self._chosen.get(id(node), 0)])
            else:
                self.add(getattr(node, "body", []))

    def uses(self) -> Iterator[_Use]:
        """Parse the text as HTML and list where each expression landed."""
        parser = _Places()
        parser.feed("".join(self._parts))
        parser.close()
        for text, place in parser.found:
            for marker in _MARKER.finditer(text):
                yield _Use(self._expressions[int(marker[1])], place, text[: marker.start()])


class _Places(HTMLParser):
    """Collects the texts of a document with their places."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[tuple[str, Place]] = []
        self._raw: Place | None = None

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        """Collect the tag's name and its attributes."""
        self.found.append((tag, "tag"))
        quoted = _quoted_markers(self.get_starttag_text() or "")
        for name, value in attributes:
            self.found.append((name, "tag"))
            if value is not None:
                self.found.append((value, _place_of(name, value, quoted)))
        self._raw = _RAW_TEXT.get(tag)

    def handle_endtag(self, tag: str) -> None:
        """Collect the tag's name."""
        self.found.append((tag, "tag"))
        self._raw = None

    def handle_data(self, data: str) -> None:
        """Collect a text."""
        self.found.append((data, self._raw or "text"))

    def handle_comment(self, data: str) -> None:
        """Collect a comment."""
        self.found.append((data, "comment"))

    def handle_decl(self, decl: str) -> None:
        """Collect a declaration."""
        self.found.append((decl, "comment"))

    def unknown_decl(self, data: str) -> None:
        """Collect a CDATA section."""
        self.found.append((data, "comment"))

    def handle_pi(self, data: str) -> None:
        """Collect a processing instruction."""
        self.found.append((data, "comment"))


def _place_of(name: str, value: str, quoted: str) -> Place:
    markers = _MARKER.findall(value)
    if any(f"tcsnmrk{number}x" not in quoted for number in markers):
        return "unquoted"
    if name == "style":
        return "style"
    if name.startswith("on") or name == "srcdoc":
        return "handler"
    return "url" if name in _URL_ATTRIBUTES else "quoted"


def _quoted_markers(tag: str) -> str:
    """Return the quoted texts of a start tag."""
    return " ".join(re.findall(r"=\s*(\"[^\"]*\"|'[^']*')", tag))
