"""How many deliveries the toggles hold."""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from tocsin.domain.catalog import CHANNELS, Channel
from tocsin.domain.toggles import ChannelToggle, ProviderToggle, Toggle, TypeToggle, toggles_of
from tocsin.engine.health.provider_health import MOST_WAITING, Waiting
from tocsin.store import toggles as store
from tocsin.store.deliveries.holds import count_held
from tocsin.store.health.provider_health import count_due
from tocsin.store.pool import Connection
from tocsin.store.toggles import ToggleRow


class ToggleState(ToggleRow, frozen=True, kw_only=True):
    """A toggle with how many deliveries wait because it is off, or continue because it was switched on."""

    held: Waiting


class SwitchedToggle(ToggleState, frozen=True, kw_only=True):
    """The state of a toggle; `warnings` lists why it may have no effect."""

    warnings: list[str]


async def list_states(connection: Connection, now: datetime) -> list[ToggleState]:
    """List the toggles that were ever switched, those that are off first."""
    rows = await store.list_all(connection)
    off = [row.name for row in rows if not row.enabled]
    held = await count_held(connection, off, MOST_WAITING + 1)
    paused = {name.removeprefix("provider:"): name for name in off if name.startswith("provider:")}
    for provider, count in (await count_due(connection, list(paused), now, MOST_WAITING + 1)).items():
        held[paused[provider]] += count
    return [_with_count(row, held.get(row.name, 0)) for row in rows]


async def switch(
    connection: Connection, toggle: Toggle, *, enabled: bool, reason: str | None, by: str, now: datetime
) -> ToggleState:
    """Switch a toggle; count what waits because of it, or what continues now."""
    row = await store.change(connection, str(toggle), enabled=enabled, reason=reason, by=by, now=now)
    if isinstance(toggle, ProviderToggle):
        due = await count_due(connection, [toggle.provider], now, MOST_WAITING + 1)
        return _with_count(row, due[toggle.provider])
    channels = CHANNELS if toggle.channel is None else (toggle.channel,)
    if enabled:
        off = await store.off(connection)
        channels = tuple(channel for channel in channels if off.isdisjoint(_toggles(toggle, channel)))
    held = await count_held(connection, [str(toggle)], MOST_WAITING + 1, channels)
    return _with_count(row, held[str(toggle)])


def _toggles(toggle: TypeToggle | ChannelToggle, channel: Channel) -> Sequence[str]:
    """List the toggles that must be on for what a toggle held to continue."""
    match toggle:
        case TypeToggle(type=name):
            return toggles_of(name, channel)
        case ChannelToggle():
            return [str(toggle)]


def _with_count(row: ToggleRow, count: int) -> ToggleState:
    held = Waiting(min(count, MOST_WAITING), or_more=count > MOST_WAITING)
    return ToggleState(**msgspec.structs.asdict(row), held=held)
