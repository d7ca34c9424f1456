"""Why a delivery is not sent yet."""

from collections.abc import Mapping
from datetime import datetime

from tocsin.domain.delivery.states import WAITING
from tocsin.domain.toggles import ProviderToggle, read_toggle
from tocsin.store import toggles
from tocsin.store.deliveries.settle import DeliveryRow
from tocsin.store.health.circuit_breakers import troubled
from tocsin.store.pool import Connection


async def blocked_lanes(connection: Connection) -> dict[str, str]:
    """Return why deliveries of a lane are not claimed at present, by lane."""
    circuits = await troubled(connection)
    blocked = {
        row.provider: f"circuit breaker of {row.provider} is {row.state.replace('_', '-')}: {row.code}"
        for row in circuits.values()
        if row.name == row.provider
    }
    for row in await toggles.list_all(connection):
        toggle = read_toggle(row.name)
        if not row.enabled and isinstance(toggle, ProviderToggle):
            blocked[toggle.provider] = f"{toggle} is switched off"
    return blocked


def waiting_for(row: DeliveryRow, blocked: Mapping[str, str], now: datetime) -> str | None:
    """Return why a delivery is not sent yet: the rule that makes it wait, or the state of its provider."""
    if row.state not in WAITING or row.due_at is None:
        return None
    if row.due_at <= now:
        return blocked.get(row.lane)
    holds = [step for step in row.decisions if step.result == "hold" and step.until == row.due_at]
    return f"{holds[-1].detail}, until {row.due_at:%Y-%m-%d %H:%M:%S %Z}" if holds else None
