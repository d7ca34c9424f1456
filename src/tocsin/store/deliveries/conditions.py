"""The conditions of a filter in SQL."""

from collections.abc import Mapping
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
    "since": "notifications.accepted_at >= $0",
    "until": "notifications.accepted_at < $0",
}


class Conditions(msgspec.Struct, frozen=True):
    """Conditions of a `where` and the arguments of their parameters; without conditions, `true`."""

    sql: str
    arguments: tuple[Any, ...]


def on_deliveries(given: DeliveryFilter, first: int = 1) -> Conditions:
    """Return the conditions on the table `deliveries`; their parameters are numbered from `first`."""
    return _conditions(given, _OF_DELIVERIES, first, state=given.state)


def on_notifications(given: DeliveryFilter, first: int = 1) -> Conditions:
    """Return the conditions on the table `notifications`; their parameters are numbered from `first`."""
    return _conditions(given, _OF_NOTIFICATIONS, first)


def on_both(given: DeliveryFilter, first: int = 1) -> Conditions:
    """Return all conditions of a filter, for `deliveries` joined with their `notifications`."""
    return _conditions(given, _OF_DELIVERIES | _OF_NOTIFICATIONS, first, state=given.state)


def _conditions(
    given: DeliveryFilter, known: Mapping[str, str], first: int, *, state: State | None = None
) -> Conditions:
    values = [(sql, getattr(given, name)) for name, sql in known.items() if getattr(given, name) is not None]
    texts = [sql.replace("$0", f"${number}") for number, (sql, _) in enumerate(values, first)]
    if state is not None:
        # Written out: for a parameter no index on some of the states could be used.
        texts.insert(0, f"deliveries.state = '{state}'")
    return Conditions(" and ".join(texts) or "true", tuple(value for _, value in values))
