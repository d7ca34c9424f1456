"""What the answers of webhook endpoints mean, as a table.

Standard Webhooks counts everything but 2xx as a failure to be tried again: most often a bug or a setting of
the receiver is at fault, which its owner can mend while the delivery still has attempts. Only 410 says that
the owner wants nothing more, and only 413 is about the message itself.
"""

from datetime import timedelta
from http import HTTPStatus
from typing import Literal, assert_never

import msgspec

from tocsin.domain.delivery.outcome import Gone, Rejected, Retry


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """One row: the statuses from `first` to `last`, and what follows from them.

    `against` is the whole host, or the one endpoint: a host may serve the endpoints of many.
    """

    first: int
    last: int
    code: str
    outcome: Literal["retry", "rejected", "gone"]
    against: Literal["host", "endpoint"] = "endpoint"
    advice: str = ""


RULES = (
    Rule(
        first=300,
        last=399,
        code="redirected",
        outcome="retry",
        advice="no redirect is followed; register the address that it leads to",
    ),
    Rule(first=410, last=410, code="endpoint_gone", outcome="gone"),
    Rule(first=413, last=413, code="payload_too_large", outcome="rejected"),
    Rule(first=429, last=429, code="too_many_requests", outcome="retry"),
    Rule(first=400, last=499, code="endpoint_refused", outcome="retry"),
    Rule(first=503, last=503, code="unavailable", outcome="retry", against="host"),
    Rule(first=500, last=599, code="endpoint_failed", outcome="retry", against="host"),
)
"""The first row that fits counts."""

_STRANGE = Rule(first=0, last=999, code="unreadable_answer", outcome="retry")


def is_taken(status: int) -> bool:
    """Tell whether an endpoint took the message."""
    return HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES


def classify(status: int, retry_after: timedelta | None) -> Retry | Rejected | Gone:
    """Say what an answer means that did not take the message.

    The detail names the status alone: what an endpoint writes may quote its own URL, which is a secret.
    """
    rule = next((rule for rule in RULES if rule.first <= status <= rule.last), _STRANGE)
    detail = f"the endpoint answered {status}" + (f": {rule.advice}" if rule.advice else "")
    match rule.outcome:
        case "retry":
            return Retry(rule.code, detail, retry_after, speaks_against=_against(rule, retry_after))
        case "rejected":
            return Rejected(rule.code, detail)
        case "gone":
            return Gone(rule.code, detail)
        case _:
            assert_never(rule.outcome)


def _against(rule: Rule, retry_after: timedelta | None) -> Literal["provider", "target"]:
    """Hold nothing against a host that says when to come back: one endpoint may not speak for the others."""
    return "provider" if rule.against == "host" and retry_after is None else "target"
