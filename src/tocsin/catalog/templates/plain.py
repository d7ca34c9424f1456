"""Templates that only put texts of the payload in place: rendered without Jinja's machinery."""

from typing import NamedTuple

from jinja2 import nodes

from tocsin.domain.catalog import Payload

_DEFAULT = frozenset({"default", "d"})
_OWN_NAMES = frozenset({"self"})
"""Names that mean something to Jinja, whatever the payload has."""


class PlainTemplate(NamedTuple):
    """A format, and the payload fields that it shows, each with the text that stands for a missing one."""

    format: str
    fields: tuple[tuple[str, str | None], ...]

    def render(self, payload: Payload) -> str | None:
        """Return the text; None unless every value is one, and Jinja has to convert it or raise."""
        values = []
        for name, default in self.fields:
            value = payload.get(name, default)
            if type(value) is not str:
                return None
            values.append(value)
        return self.format % tuple(values)


def plain_template(tree: nodes.Template) -> PlainTemplate | None:
    """Return a template as a format; None for one that does more than show fields, with a default or not."""
    text, fields = "", []
    for node in tree.iter_child_nodes():
        if not isinstance(node, nodes.Output):
            return None
        for part in node.nodes:
            if isinstance(part, nodes.TemplateData):
                text += part.data.replace("%", "%%")
            elif (field := _field(part)) is not None:
                text += "%s"
                fields.append(field)
            else:
                return None
    return PlainTemplate(text, tuple(fields))


def _field(expression: nodes.Node) -> tuple[str, str | None] | None:
    """Return the name of the field that an expression shows, and its default; None for any other."""
    match expression:
        case nodes.Name(name=name) if name not in _OWN_NAMES:
            return name, None
        case nodes.Filter(
            node=nodes.Name(name=name),
            name=used,
            args=[nodes.Const(value=str(default))],
            kwargs=[],
            dyn_args=None,
            dyn_kwargs=None,
        ) if used in _DEFAULT and name not in _OWN_NAMES:
            return name, default
        case _:
            return None
