"""Text fields of responses with a documented set of values that may grow."""

from collections.abc import Iterable
from typing import get_args

from msgspec import Meta

from tocsin.domain.catalog import Channel
from tocsin.domain.delivery.reasons import Rule
from tocsin.domain.delivery.receipts import ReceiptEvent
from tocsin.domain.delivery.states import State, Status


def documented(values: Iterable[str]) -> Meta:
    """List the known values in the schema, but accept others: a newer server may have more."""
    return Meta(extra_json_schema={"enum": list(values)})


CHANNELS = documented(get_args(Channel))
STATES = documented(State)
STATUSES = documented(Status)
RECEIPT_EVENTS = documented(get_args(ReceiptEvent))
RULES = documented(get_args(Rule))
RULE_RESULTS = documented(("pass", "hold", "skip"))
BROADCAST_STATES = documented(("expanding", "finished", "cancelled", "expired"))
EXPLAINED_OUTCOMES = documented(("sent", "held", "skipped", "expired"))
