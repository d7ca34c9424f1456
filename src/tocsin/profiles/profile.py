"""Profiles: Tocsin in the place of another service, configured by that service's own variables."""

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from tocsin.domain.faults import Fault

VARIABLE = "TOCSIN_PROFILE"
_OWN_NAME = re.compile(r"\bTOCSIN_([A-Z0-9_]+)")


class Leaf(NamedTuple):
    """One setting that a profile sets, and whether a variable was set for it."""

    path: tuple[str, ...]
    value: Any
    is_given: bool = False


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """What the variables of another service mean for Tocsin.

    `defaults` stand below the settings file, `given` above it; `TOCSIN_*` variables stand above both.
    `variables` are those that decide a setting, by its name. `environment` are variables to set for libraries
    that read their own. `unused` are variables that are set and have no effect.
    """

    name: str
    leaves: tuple[Leaf, ...]
    faults: tuple[Fault, ...] = ()
    variables: Mapping[str, tuple[str, ...]] = {}
    environment: Mapping[str, str] = {}
    unused: tuple[str, ...] = ()

    @property
    def defaults(self) -> dict[str, Any]:
        """The settings that nobody set."""
        return _tree(leaf for leaf in self.leaves if not leaf.is_given)

    @property
    def given(self) -> dict[str, Any]:
        """The settings that a variable was set for."""
        return _tree(leaf for leaf in self.leaves if leaf.is_given)

    def named(self, fault: Fault) -> Fault:
        """Return a fault of a setting with the variables of the other service that decide it."""
        setting = fault.field.partition(" ")[0]
        if variables := self.variables.get(setting):
            field, message = (
                f"{', '.join(variables)} ({setting})",
                _OWN_NAME.sub(self._variable, fault.message),
            )
            return msgspec.structs.replace(fault, field=field, message=message)
        return fault

    def decided_by(self, variables: Collection[str]) -> set[str]:
        """Return the settings that one of some variables decides, alone or with others."""
        return {
            setting for setting, deciding in self.variables.items() if not set(deciding).isdisjoint(variables)
        }

    def _variable(self, own: re.Match[str]) -> str:
        """Return the variables of the other service in place of one of Tocsin's."""
        setting = own[1].lower().replace("__", ".")
        return " and ".join(self.variables[setting]) if setting in self.variables else own[0]


def read_profile(environ: Mapping[str, str]) -> Profile | None:
    """Read the variables of the profile that TOCSIN_PROFILE selects; None without one."""
    name = environ.get(VARIABLE)
    if not name:
        return None
    from tocsin.profiles.galaxy import galaxy  # noqa: PLC0415 - few processes run as another service

    profiles: dict[str, Callable[[Mapping[str, str]], Profile]] = {"galaxy": galaxy}
    if name in profiles:
        return profiles[name](environ)
    message = f"there is no profile {name[:40]!r}; there is: {', '.join(profiles)}"
    return Profile(
        name=name,
        leaves=(),
        faults=(Fault(field=f"--profile ({VARIABLE})", code="unknown", message=message),),
    )


def merge(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Merge two trees of settings; where both have a value, that of `above` is taken."""
    merged = dict(below)
    for name, value in above.items():
        match merged.get(name), value:
            case Mapping() as before, Mapping() as after:
                merged[name] = merge(before, after)
            case _:
                merged[name] = value
    return merged


def _tree(leaves: Iterable[Leaf]) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for leaf in leaves:
        *parents, last = leaf.path
        branch = tree
        for parent in parents:
            branch = branch.setdefault(parent, {})
        branch[last] = leaf.value
    return tree
