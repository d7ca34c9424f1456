"""What the answers of webhook endpoints mean, as a table.

Standard Webhooks counts everything but 2xx as a failure to be retried: most often a bug or a setting of the
receiver is at fault, which its owner can mend while the delivery still has attempts. Only 410 says that the
owner wants nothing more, and only 413 is about the message itself.
"""

from datetime import timedelta
from http import HTTPStatus

import msgspec

from tocsin.providers.answers import Answer, Failure, Rule, first_match, outcome_of

REDIRECTS = range(300, 400)

# A host may serve the endpoints of many: unless it failed as a whole, an answer is held against one endpoint.
RULES = (
    Rule(status=REDIRECTS, code="redirected", outcome="retry", speaks_against="target"),
    Rule(status=410, code="endpoint_gone", outcome="gone"),
    Rule(status=413, code="payload_too_large", outcome="rejected"),
    Rule(status=429, code="too_many_requests", outcome="retry", speaks_against="target"),
    Rule(status=range(400, 500), code="endpoint_refused", outcome="retry", speaks_against="target"),
    Rule(status=503, code="unavailable", outcome="retry"),
    Rule(status=range(500, 600), code="endpoint_failed", outcome="retry"),
)
"""The first row that matches counts."""

_ALL_RULES = (*RULES, Rule(code="unreadable_answer", outcome="retry", speaks_against="target"))


def is_taken(status: int) -> bool:
    """Return whether an endpoint took the message."""
    return HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES


def classify(status: int, retry_after: timedelta | None) -> Failure:
    """Return the outcome of an answer that did not take the message.

    The detail has the status alone: what an endpoint answers may quote its own URL, which is a secret.
    """
    detail = f"the endpoint answered {status}"
    if status in REDIRECTS:
        detail += ": no redirect is followed; register the address that it leads to"
    answer = Answer(status=status, detail=detail, retry_after=retry_after)
    rule = first_match(answer, _ALL_RULES)
    if retry_after is not None:
        # One endpoint that says when to come back must not hold up the others of its host.
        rule = msgspec.structs.replace(rule, speaks_against="target")
    return outcome_of(rule, answer)
