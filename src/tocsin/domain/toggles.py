"""Toggles: what can be switched off, by name."""

import difflib
import re
from collections.abc import Mapping
from typing import Annotated, TypeAlias, assert_never

import msgspec
from msgspec import Meta

from tocsin.domain.catalog import PARTS, Channel, NotificationType
from tocsin.domain.faults import Fault

SHAPES = "type:<name>, type:<name>:<channel>, channel:<channel> or provider:<name>"
LONGEST_NOTE = 500
LONGEST_PART = 100
LONGEST_LIST = 1_000
_SHOWN = 80

Note = Annotated[
    str, Meta(min_length=1, max_length=LONGEST_NOTE, pattern=r"^[^\x00-\x1f\x7f\ud800-\udfff]+\Z")
]

_TYPE = re.compile(r"[a-z][a-z0-9_-]*(?:[.][a-z0-9_-]+)*")
_PROVIDER = re.compile(r"[a-z][a-z0-9_-]*")


class TypeToggle(msgspec.Struct, frozen=True):
    """Switches a type, by one channel or by all."""

    type: str
    channel: Channel | None = None

    def __str__(self) -> str:
        """Return the name of the toggle."""
        return f"type:{self.type}" if self.channel is None else f"type:{self.type}:{self.channel}"


class ChannelToggle(msgspec.Struct, frozen=True):
    """Switches a channel for every type."""

    channel: Channel

    def __str__(self) -> str:
        """Return the name of the toggle."""
        return f"channel:{self.channel}"


class ProviderToggle(msgspec.Struct, frozen=True):
    """Pauses a provider."""

    provider: str

    def __str__(self) -> str:
        """Return the name of the toggle."""
        return f"provider:{self.provider}"


Toggle: TypeAlias = TypeToggle | ChannelToggle | ProviderToggle


def read_toggle(name: str) -> Toggle | Fault:
    """Parse a toggle's name, or return what is wrong with it."""
    match name.split(":"):
        case ["type", kind] if _is(_TYPE, kind):
            return TypeToggle(kind)
        case ["type", kind, by] if _is(_TYPE, kind):
            channel = _channel(by)
            return TypeToggle(kind, channel) if channel else _no_channel(by)
        case ["channel", by]:
            channel = _channel(by)
            return ChannelToggle(channel) if channel else _no_channel(by)
        case ["provider", provider] if _is(_PROVIDER, provider):
            return ProviderToggle(provider)
        case _:
            return _fault(f"{name[:_SHOWN]!r} is not the name of a toggle, which is {SHAPES}")


def toggles_of(kind: str, channel: str) -> tuple[str, str, str]:
    """List the toggles that must all be on for a type to be sent by a channel, the widest first."""
    return f"channel:{channel}", f"type:{kind}", f"type:{kind}:{channel}"


def toggle_of(provider: str) -> str:
    """Return the name of the toggle that pauses a provider."""
    return f"provider:{provider}"


def doubt(toggle: Toggle, types: Mapping[str, NotificationType]) -> str | None:
    """Return why a toggle may have no effect, judged by the catalog."""
    match toggle:
        case TypeToggle(type=name, channel=channel):
            kind = types.get(name)
            if kind is None:
                near = difflib.get_close_matches(name, types, n=1)
                hint = f"; did you mean {near[0]}?" if near else ""
                return f"The catalog has no type {name!r}{hint}"
            if channel is not None and channel not in kind.channels:
                return f"{name} does not go by {channel}, only by {', '.join(kind.channels)}"
            return None
        case ChannelToggle() | ProviderToggle():
            return None
        case _:
            assert_never(toggle)


def discard_fault(toggle: Toggle, *, enabled: bool) -> Fault | None:
    """Return why what a toggle holds cannot be discarded with a switch, or None."""
    if not enabled:
        message = "is for switching on: what a toggle held is cancelled instead of continuing"
    elif isinstance(toggle, ProviderToggle):
        message = "is for types and channels: what waits for a provider is cancelled by query"
    else:
        return None
    return Fault(field="discard", code="invalid", message=message)


def _is(pattern: re.Pattern[str], text: str) -> bool:
    return len(text) <= LONGEST_PART and pattern.fullmatch(text) is not None


def _channel(text: str) -> Channel | None:
    return next((channel for channel in PARTS if channel == text), None)


def _no_channel(text: str) -> Fault:
    return _fault(f"{text[:_SHOWN]!r} is not a channel; channels are {', '.join(PARTS)}")


def _fault(message: str) -> Fault:
    return Fault(field="name", code="invalid", message=message)
