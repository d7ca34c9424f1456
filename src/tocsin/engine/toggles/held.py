"""Switching toggles, and how many deliveries they hold."""

import time
from collections.abc import Sequence
from datetime import datetime

import msgspec

from tocsin.domain.catalog import CHANNELS, Channel
from tocsin.domain.decide import Step
from tocsin.domain.toggles import ChannelToggle, ProviderToggle, Toggle, TypeToggle, toggles_of
from tocsin.engine.health.provider_health import MOST_WAITING, Waiting
from tocsin.store import audit
from tocsin.store import toggles as store
from tocsin.store.deliveries.cancelling import cancel_held
from tocsin.store.deliveries.holds import count_held
from tocsin.store.health.provider_health import count_due
from tocsin.store.pool import Connection
from tocsin.store.toggles import ToggleRow

DISCARD_SECONDS = 5.0
DISCARDED_AT_ONCE = 5_000


class ToggleState(ToggleRow, frozen=True, kw_only=True):
    """A toggle with how many deliveries wait because it is off, or continue because it was switched on."""

    held: Waiting


class SwitchedToggle(ToggleState, frozen=True, kw_only=True):
    """The state of a toggle; `warnings` lists why it may have no effect.

    `discarded` is how many deliveries were cancelled. If it is still off, it held too many for one call.
    """

    warnings: list[str]
    discarded: int = 0


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


async def discard_and_switch_on(
    connection: Connection,
    toggle: TypeToggle | ChannelToggle,
    *,
    reason: str | None,
    by: str,
    now: datetime,
) -> tuple[ToggleState, int]:
    """Cancel what a toggle holds, then switch it on; return its state and how many were cancelled.

    A chunk is one transaction with its entry in the audit, the last one with the switch. After some seconds
    the toggle is left off, to go on with the next call.
    """
    step = Step(rule="toggle", result="skip", detail=f"discarded by {by}, who switched {toggle} on", at=now)
    ends, total = time.monotonic() + DISCARD_SECONDS, 0
    while True:
        async with connection.transaction():
            count = await cancel_held(connection, str(toggle), step, now, DISCARDED_AT_ONCE)
            total += count
            if count:
                details = {"cancelled": count}
                await audit.record(
                    connection, actor=by, action="toggle.discard", subject=str(toggle), details=details
                )
            if count < DISCARDED_AT_ONCE:
                return await switch(connection, toggle, enabled=True, reason=reason, by=by, now=now), total
        if time.monotonic() >= ends:
            break
    held = await count_held(connection, [str(toggle)], MOST_WAITING + 1)
    # A flag service of its own may have held them: then the table has no row.
    known = next((row for row in await store.list_all(connection) if row.name == str(toggle)), None)
    row = known or ToggleRow(name=str(toggle), enabled=False, reason=None, updated_by=by, updated_at=now)
    return _with_count(row, held[str(toggle)]), total


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
