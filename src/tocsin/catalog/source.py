"""YAML parsed into plain JSON values, with the line number of every node."""

import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import yaml

from tocsin.catalog.schema import KeyPath
from tocsin.domain.faults import Fault

_TAG = "tag:yaml.org,2002:"
# YAML 1.2's core schema: pattern, possible first characters and parser of each scalar. The YAML 1.1 rules
# of PyYAML would read `no` as false and `1:30` as ninety.
_SCALARS: Mapping[str, tuple[str, list[str], Callable[[str], Any]]] = {
    "null": (r"(?:~|null)?", ["~", "n", ""], lambda _: None),
    "bool": (r"(?:true|false)", ["t", "f"], lambda text: text == "true"),
    "int": (r"[-+]?(?:0|[1-9][0-9]*)", list("-+0123456789"), int),
    "float": (r"[-+]?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?", list("-+0123456789"), float),
}
_PARSERS: dict[str, Callable[[str], Any]] = {_TAG + "str": str}


class YamlSource(msgspec.Struct, frozen=True):
    """One YAML file: its value, the line of each key path in it, and its syntax faults."""

    path: str
    value: Any
    lines: Mapping[KeyPath, int]
    faults: tuple[Fault, ...] = ()

    def line(self, key_path: KeyPath) -> int:
        """Return the line of a key path, or of its nearest ancestor in the file."""
        ancestors = (key_path[:end] for end in range(len(key_path), -1, -1))
        return next(self.lines[ancestor] for ancestor in ancestors if ancestor in self.lines)

    def fault(self, key_path: KeyPath, code: str, message: str) -> Fault:
        """Build a fault whose field is the file and the line of a key path."""
        return Fault(field=f"{self.path}:{self.line(key_path)}", code=code, message=message)


class _Loader(yaml.SafeLoader):
    """Resolves the scalars of JSON and nothing else."""


_Loader.yaml_implicit_resolvers = {}
for _name, (_pattern, _first, _parse) in _SCALARS.items():
    _PARSERS[_TAG + _name] = _parse
    _Loader.add_implicit_resolver(_TAG + _name, re.compile(rf"(?:{_pattern})\Z", re.ASCII), _first)


def read_source(path: str, text: str) -> YamlSource:
    """Parse one YAML document; the value of a file with a syntax error is None."""
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
    parser = _Parser(path)
    value = parser.value(node, ())
    return YamlSource(path, value, parser.lines, tuple(parser.faults))


def _unreadable(path: str, line: int, message: str) -> YamlSource:
    return YamlSource(path, None, {(): 1}, (Fault(field=f"{path}:{line}", code="yaml", message=message),))


class _Parser:
    """Converts the nodes of one document and collects lines and faults."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.lines: dict[KeyPath, int] = {}
        self.faults: list[Fault] = []
        self._seen: set[int] = set()

    def value(self, node: yaml.Node, key_path: KeyPath) -> Any:
        self.lines.setdefault(key_path, _line(node))
        # A node seen twice is an alias. Aliases can expand without end, and `$defs` replaces them.
        if id(node) in self._seen:
            message = "YAML aliases are not supported; write the value out or use $defs"
            return self._fault(self.lines[key_path], "alias", message)
        self._seen.add(id(node))
        match node:
            case yaml.MappingNode(tag="tag:yaml.org,2002:map"):
                return self._mapping(node, key_path)
            case yaml.SequenceNode(tag="tag:yaml.org,2002:seq"):
                return [self.value(item, (*key_path, index)) for index, item in enumerate(node.value)]
            case yaml.ScalarNode(tag=tag) if tag in _PARSERS:
                return _PARSERS[tag](node.value)
            case _:
                message = f"the tag {node.tag!r} is not supported; write plain YAML"
                return self._fault(_line(node), "tag", message)

    def _mapping(self, node: yaml.MappingNode, key_path: KeyPath) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                self._fault(_line(key_node), "key", "a key must be plain text")
                continue
            key = key_node.value
            if key in result:
                earlier = self.lines[(*key_path, key)]
                self._fault(_line(key_node), "duplicate", f"{key!r} is given twice; first on line {earlier}")
                continue
            self.lines[(*key_path, key)] = _line(key_node)
            result[key] = self.value(value_node, (*key_path, key))
        return result

    def _fault(self, line: int, code: str, message: str) -> None:
        self.faults.append(Fault(field=f"{self.path}:{line}", code=code, message=message))


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1
