"""The conditions of a filter in SQL."""

from collections.abc import Iterable
from typing import Any

import msgspec

from tocsin.wire.filters import DeliveryFilter

# By field of the filter. Every value is a parameter, $0 here.
_OF_DELIVERIES = {
    "user": "deliveries.user_id = $0",
    "state": "deliveries.state = $0",
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
    return _conditions(given, _OF_DELIVERIES.items(), first)


def on_notifications(given: DeliveryFilter, first: int = 1) -> Conditions:
    """Return the conditions on the table `notifications`; their parameters are numbered from `first`."""
    return _conditions(given, _OF_NOTIFICATIONS.items(), first)


def on_both(given: DeliveryFilter, first: int = 1) -> Conditions:
    """Return all conditions of a filter, for `deliveries` joined with their `notifications`."""
    return _conditions(given, (_OF_DELIVERIES | _OF_NOTIFICATIONS).items(), first)


def _conditions(given: DeliveryFilter, known: Iterable[tuple[str, str]], first: int) -> Conditions:
    values = [(sql, getattr(given, name)) for name, sql in known if getattr(given, name) is not None]
    texts = [sql.replace("$0", f"${number}") for number, (sql, _) in enumerate(values, first)]
    return Conditions(" and ".join(texts) or "true", tuple(value for _, value in values))
