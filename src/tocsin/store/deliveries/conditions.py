"""The conditions of a filter in SQL."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from tocsin.domain.delivery.states import State
from tocsin.wire.filters import DeliveryFilter

# By field of the filter; every value is a parameter, $0 here.
_OF_DELIVERIES = {
    "user": "deliveries.user_id = $0",
    "reason": "deliveries.reason = $0",
    "code": "deliveries.last_error_code = $0",
    "channel": "deliveries.channel = $0",
    "provider": (
        "(deliveries.provider = $0 or (deliveries.provider is null and deliveries.lane = $0 "
        "and deliveries.state in ('scheduled', 'pending', 'retrying')))"
    ),
}
_OF_NOTIFICATIONS = {
    "type": "notifications.type = $0",
    "producer": "notifications.producer = $0",
    "key_prefix": "starts_with(notifications.idempotency_key, $0)",
    "org_id": "notifications.org_id = $0",
    "since": "notifications.accepted_at >= $0",
    "until": "notifications.accepted_at < $0",
}


class Conditions(msgspec.Struct, frozen=True):
    """Conditions of a `where` and the arguments of their parameters; without conditions, `true`."""

    sql: str
    arguments: tuple[Any, ...]


def on_deliveries(given: DeliveryFilter, first: int = 1) -> Conditions:
    """Return the conditions on the table `deliveries`; their parameters are numbered from `first`."""
    return _conditions(given, _OF_DELIVERIES, first, states=given.states)


def on_notifications(given: DeliveryFilter, first: int = 1) -> Conditions:
    """Return the conditions on the table `notifications`; their parameters are numbered from `first`."""
    return _conditions(given, _OF_NOTIFICATIONS, first)


def on_both(given: DeliveryFilter, first: int = 1) -> Conditions:
    """Return all conditions of a filter, for `deliveries` joined with their `notifications`."""
    return _conditions(given, _OF_DELIVERIES | _OF_NOTIFICATIONS, first, states=given.states)


def has_state(*states: State) -> str:
    """Return the condition that a delivery is in one of the states."""
    # Written out: for a parameter no index on some of the states could be used.
    listed = ", ".join(f"'{state}'" for state in states)
    return f"deliveries.state = {listed}" if len(states) == 1 else f"deliveries.state in ({listed})"


def _conditions(
    given: DeliveryFilter, known: Mapping[str, str], first: int, *, states: Sequence[State] = ()
) -> Conditions:
    values = [(sql, getattr(given, name)) for name, sql in known.items() if getattr(given, name) is not None]
    texts = [sql.replace("$0", f"${number}") for number, (sql, _) in enumerate(values, first)]
    if states:
        texts.insert(0, has_state(*states))
    return Conditions(" and ".join(texts) or "true", tuple(value for _, value in values))
