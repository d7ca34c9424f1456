"""YAML read as plain JSON values, with the line of every node kept."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import yaml

from tocsin.catalog.schema import Place
from tocsin.domain.faults import Fault

_TAG = "tag:yaml.org,2002:"
# YAML 1.2's core schema. The 1.1 rules that PyYAML brings read `no` as false and `1:30` as ninety.
_SCALARS: Mapping[str, tuple[re.Pattern[str], Sequence[str]]] = {
    "null": (re.compile(r"(?:~|null)?", re.ASCII), ["~", "n", ""]),
    "bool": (re.compile(r"(?:true|false)", re.ASCII), ["t", "f"]),
    "int": (re.compile(r"[-+]?(?:0|[1-9][0-9]*)", re.ASCII), list("-+0123456789")),
    "float": (
        re.compile(r"[-+]?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?", re.ASCII),
        list("-+0123456789"),
    ),
}


class Source(msgspec.Struct, frozen=True):
    """One YAML file: its value, where each part of it stands, and what could not be read."""

    path: str
    value: Any
    lines: Mapping[Place, int]
    faults: tuple[Fault, ...] = ()

    def line(self, place: Place) -> int:
        """Give the line of a place, or of the nearest one around it."""
        return next(self.lines[place[:end]] for end in range(len(place), -1, -1) if place[:end] in self.lines)

    def fault(self, place: Place, code: str, message: str) -> Fault:
        """Name a fault by the line it stands on."""
        return Fault(field=f"{self.path}:{self.line(place)}", code=code, message=message)


class _Loader(yaml.SafeLoader):
    """Resolves the scalars of JSON and nothing else."""


_Loader.yaml_implicit_resolvers = {}
for _name, (_pattern, _first) in _SCALARS.items():
    _whole = re.compile(rf"(?:{_pattern.pattern})\Z", re.ASCII)
    _Loader.add_implicit_resolver(_TAG + _name, _whole, _first)


def read_source(path: str, text: str) -> Source:
    """Read one YAML document; a file that is no YAML at all gives an empty value and a fault."""
    try:
        node = yaml.compose(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        problem = " ".join(filter(None, (error.context, error.problem)))
        return _unreadable(path, mark.line + 1 if mark else 1, f"this is not valid YAML: {problem}")
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        return _unreadable(path, line, f"a character is not allowed in YAML: {error.reason}")
    if node is None:
        return _unreadable(path, 1, "the file is empty; declare a type in it or delete it")
    reading = _Reading(path)
    value = reading.value(node, ())
    return Source(path, value, reading.lines, tuple(reading.faults))


def _unreadable(path: str, line: int, message: str) -> Source:
    return Source(path, None, {(): 1}, (Fault(field=f"{path}:{line}", code="yaml", message=message),))


class _Reading:
    """Walks the nodes of one document."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.lines: dict[Place, int] = {}
        self.faults: list[Fault] = []
        self._seen: set[int] = set()

    def value(self, node: yaml.Node, place: Place) -> Any:
        self.lines.setdefault(place, _line(node))
        # A node met twice is an alias; aliases can nest without end, and `$defs` does their work.
        if id(node) in self._seen:
            self._fault(
                self.lines[place], "alias", "YAML aliases are not supported; write the value out or use $defs"
            )
            return None
        self._seen.add(id(node))
        match node:
            case yaml.MappingNode(tag="tag:yaml.org,2002:map"):
                return self._mapping(node, place)
            case yaml.SequenceNode(tag="tag:yaml.org,2002:seq"):
                return [self.value(item, (*place, index)) for index, item in enumerate(node.value)]
            case yaml.ScalarNode():
                return self._scalar(node)
            case _:
                return self._refused(node)

    def _mapping(self, node: yaml.MappingNode, place: Place) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                self._fault(_line(key_node), "key", "a key must be plain text")
                continue
            key = key_node.value
            if key in result:
                earlier = self.lines[(*place, key)]
                self._fault(_line(key_node), "duplicate", f"{key!r} is given twice; first on line {earlier}")
                continue
            self.lines[(*place, key)] = _line(key_node)
            result[key] = self.value(value_node, (*place, key))
        return result

    def _scalar(self, node: yaml.ScalarNode) -> Any:
        text: str = node.value
        match node.tag.removeprefix(_TAG):
            case "str":
                return text
            case "null":
                return None
            case "bool":
                return text == "true"
            case "int":
                return int(text)
            case "float":
                return float(text)
            case _:
                return self._refused(node)

    def _refused(self, node: yaml.Node) -> None:
        self._fault(_line(node), "tag", f"the tag {node.tag!r} is not supported; write plain YAML")

    def _fault(self, line: int, code: str, message: str) -> None:
        self.faults.append(Fault(field=f"{self.path}:{line}", code=code, message=message))


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1
