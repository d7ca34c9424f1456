"""The reference of settings, from the tree of settings."""

import ast
import inspect
import textwrap
from collections.abc import Iterator
from enum import StrEnum
from itertools import pairwise
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

import msgspec

from tocsin.providers.registry import BUILT_IN
from tocsin.providers.settings import ProviderSettings
from tocsin.settings.build import PREFIX
from tocsin.settings.tree import settings_type
from tools.docs.markdown import NONE, code, codes, page, table
from tools.docs.pages.setting_texts import MEANING, SECTIONS


def _described(type_: type[ProviderSettings]) -> dict[str, str]:
    """Read what stands below each setting of a provider, in its class or in one that it inherits."""
    found: dict[str, str] = {}
    for parent in (each for each in reversed(type_.__mro__) if issubclass(each, ProviderSettings)):
        (declared,) = ast.parse(textwrap.dedent(inspect.getsource(parent))).body
        for field, below in pairwise(getattr(declared, "body", ())):
            match field, below:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                    found[name] = " ".join(text.split())
    return found


_MEANING = MEANING | {
    f"{entry.name}.{name}": text for entry in BUILT_IN for name, text in _described(entry.settings).items()
}


class Setting(NamedTuple):
    """One leaf of the settings tree."""

    path: tuple[str, ...]
    kind: Any
    default: Any

    @property
    def name(self) -> str:
        """The name in a settings file."""
        return ".".join(self.path)

    @property
    def variable(self) -> str:
        """The name as an environment variable."""
        return PREFIX + "__".join(self.path).upper()


def every_setting(kind: type[msgspec.Struct], path: tuple[str, ...] = ()) -> Iterator[Setting]:
    """List the settings in the order they are declared, those that a section inherits after its own."""
    order = ["enabled", *(name for parent in kind.__mro__ for name in inspect.get_annotations(parent))]
    for field in sorted(msgspec.structs.fields(kind), key=lambda field: order.index(field.name)):
        where = (*path, field.name)
        if _is_section(field.type):
            yield from every_setting(field.type, where)
        elif get_origin(field.type) is dict and _is_section(get_args(field.type)[1]):
            yield from every_setting(get_args(field.type)[1], (*where, "NAME"))
        else:
            default = field.default if field.default is not msgspec.NODEFAULT else field.default_factory()
            yield Setting(where, field.type, default)


def _is_section(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def settings_page() -> str:
    """Build the page."""
    settings = list(every_setting(settings_type({entry.name: entry for entry in BUILT_IN})))
    if undescribed := {setting.name for setting in settings} ^ _MEANING.keys():
        raise ValueError(
            f"tools/docs/pages/setting_texts.py does not match the settings: {sorted(undescribed)}"
        )
    intro = (
        "A setting is in `tocsin.toml` in the current folder, or in the file of `TOCSIN_CONFIG`; "
        "a variable of the same name overrides it: `port` in the section `[http]` is "
        "`TOCSIN_HTTP__PORT`, with two underscores between the levels. A setting that is unknown, wrong or "
        "contradicts another stops the start with a message."
    )
    example = (
        '```toml title="tocsin.toml"\ndatabase_url = "postgresql://tocsin:change-me@db.example.com/tocsin"\n'
        'catalog = "/etc/tocsin/catalog"\nworkers = 2\n\n'
        '[http]\nhost = "0.0.0.0"\n\n[fcm]\ncredentials_file = "/etc/tocsin/service-account.json"\n'
        "max_concurrency = 2000\n```"
    )
    blocks = [intro, example]
    for section, title in SECTIONS.items():
        inside = [setting for setting in settings if ".".join(setting.path[:-1]) == section]
        heading = f"## {title}" + (f": `[{section}]`" if section else "")
        blocks += [
            heading,
            table(["setting", "value", "default", "meaning"], map(_row, inside)),
        ]
    return page("Settings", *blocks)


def _row(setting: Setting) -> list[str]:
    default = NONE if setting.default in (None, {}, [], "") else code(_shown(setting.default))
    return [
        f"{code(setting.path[-1])}<br>{code(setting.variable)}",
        _kind(setting.kind),
        default,
        _MEANING[setting.name],
    ]


def _shown(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _kind(kind: Any) -> str:
    """Describe a type in words."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        bounds = arguments[1]
        return _kind(arguments[0]) + _range(bounds)
    if origin in {Union, UnionType}:
        return " or ".join(_kind(member) for member in arguments if member is not NoneType)
    if origin is Literal:
        return codes(arguments)
    if origin is dict:
        return f"for each: {_kind(arguments[1])}"
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return codes(kind)
    if origin is list:
        return "list, with commas between"
    return {str: "text", bool: "yes or no", int: "whole number", float: "number", Path: "path"}[kind]


def _range(bounds: msgspec.Meta) -> str:
    low, above, high = bounds.ge, bounds.gt, bounds.le
    named = (("from", low), ("above", above), ("up to", high))
    parts = [f"{word} {bound:,}" for word, bound in named if bound is not None]
    return f", {' '.join(parts)}" if parts else ""
