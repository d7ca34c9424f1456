"""A person's preferences: a choice for each category and channel, which is yes by default."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, Literal, TypeAlias, get_args

import msgspec

from tocsin.domain.catalog import Channel, NotificationType
from tocsin.domain.faults import Fault

MOST_CATEGORIES = 200
LONGEST_CATEGORY = 64

# Stored choices may come from an import, so their values can be any JSON.
StoredChoices: TypeAlias = Mapping[str, Any]
Choices: TypeAlias = dict[str, dict[str, bool]]
# None resets a choice, or every choice of a category, to the default.
Changes: TypeAlias = dict[str, dict[Channel, bool | None] | None]

# Which types of a category an opt-out applies to: all of them, all but critical ones, or none.
Refusal: TypeAlias = Literal["all", "not_critical", "none"]

_CATEGORY = re.compile(r"[a-z][a-zA-Z0-9_-]*", re.ASCII)
_CHANNELS = get_args(Channel)
_NOTHING: dict[str, Any] = {}


class Choice(StrEnum):
    """A person's choice for one category and channel."""

    DEFAULT_YES = "default_yes"
    YES = "yes"
    NO = "no"
    MALFORMED_YES = "malformed_yes"


def allows(choices: StoredChoices | None, category: str, channel: str) -> Choice:
    """Return the choice for a category and channel; a missing or malformed one counts as yes."""
    if choices is None:
        return Choice.DEFAULT_YES
    if not isinstance(choices, dict):
        return Choice.MALFORMED_YES
    channels = choices.get(category, _NOTHING)
    if not isinstance(channels, dict):
        return Choice.MALFORMED_YES
    match channels.get(channel, _NOTHING):
        case True:
            return Choice.YES
        case False:
            return Choice.NO
        case value:
            return Choice.DEFAULT_YES if value is _NOTHING else Choice.MALFORMED_YES


def readable(choices: StoredChoices | None) -> Choices:
    """Return the choices without malformed ones."""
    if not isinstance(choices, dict):
        return {}
    found = {
        category: {
            channel: wanted for channel, wanted in channels.items() if wanted is True or wanted is False
        }
        for category, channels in choices.items()
        if isinstance(channels, dict)
    }
    return {category: channels for category, channels in found.items() if channels}


def change_faults(changes: Any) -> Iterator[Fault]:
    """List everything that is wrong with the changes that a person's app sends."""
    if not isinstance(changes, dict):
        yield Fault(field="$", code="invalid", message="must be an object: {category: {channel: true}}")
        return
    if len(changes) > MOST_CATEGORIES:
        message = f"has {len(changes):,} categories; at most {MOST_CATEGORIES} are allowed"
        yield Fault(field="$", code="too_many", message=message)
        return
    for category, channels in changes.items():
        if not is_category(category):
            message = f"is not a category: write 1 to {LONGEST_CATEGORY} letters, digits, _ and -, a-z first"
            yield Fault(field=_shown(category), code="invalid", message=message)
        elif channels is not None:
            yield from _channel_faults(category, channels)


def _channel_faults(category: str, channels: Any) -> Iterator[Fault]:
    if not isinstance(channels, dict):
        message = "must be an object {channel: true or false}, or null for the default"
        yield Fault(field=category, code="invalid", message=message)
        return
    for channel, wanted in channels.items():
        if channel not in _CHANNELS:
            message = f"is not a channel; channels are {', '.join(_CHANNELS)}"
            yield Fault(field=f"{category}.{_shown(channel)}", code="unknown", message=message)
        elif wanted is not None and not isinstance(wanted, bool):
            message = "must be true, false, or null for the default"
            yield Fault(field=f"{category}.{channel}", code="invalid", message=message)


def is_category(name: str) -> bool:
    """Return whether a text is a valid category name."""
    return len(name) <= LONGEST_CATEGORY and _CATEGORY.fullmatch(name) is not None


def _shown(name: str) -> str:
    """Return a clipped name without unprintable characters."""
    clipped = name[: LONGEST_CATEGORY + 1]
    return "".join(character if character.isprintable() else "\ufffd" for character in clipped) or '""'


class Category(msgspec.Struct, frozen=True):
    """A category of the catalog, and for each of its channels which types an opt-out applies to."""

    category: str
    channels: dict[Channel, Refusal]


def categories(types: Iterable[NotificationType]) -> list[Category]:
    """List the categories of the given types that people can get, by name."""
    critical: dict[str, dict[Channel, list[bool]]] = {}
    for type_ in types:
        for channel in type_.channels_for("users", "attributes", "everyone", "segment"):
            marks = critical.setdefault(type_.category, {}).setdefault(channel, [])
            marks.append(type_.policies.critical)
    return [
        Category(name, {channel: _refusal(marks) for channel, marks in sorted(critical[name].items())})
        for name in sorted(critical)
    ]


def _refusal(critical: Sequence[bool]) -> Refusal:
    if not any(critical):
        return "all"
    return "none" if all(critical) else "not_critical"
