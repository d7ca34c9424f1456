"""What the answers of push services mean, as a table."""

from datetime import timedelta
from http import HTTPStatus
from typing import Any

from tocsin.providers import answers
from tocsin.providers.answers import NEEDS_OPERATOR, Answer, Failure, Rule

QUOTA_REST = timedelta(minutes=1)
SHORTEST_REST = timedelta(seconds=1)
KEY_MISMATCH = "vapid_key_mismatch"
_DETAIL_CHARACTERS = 300

TAKEN = frozenset({HTTPStatus.OK, HTTPStatus.CREATED, HTTPStatus.ACCEPTED, HTTPStatus.NO_CONTENT})

# Whoever registers a subscription chooses what answers: a refusal pauses no other subscription.
_REFUSED: dict[str, Any] = {**NEEDS_OPERATOR, "pauses": False, "least_rest": SHORTEST_REST}
_THROTTLED: dict[str, Any] = {
    "outcome": "defer",
    "pauses": True,
    "rest": QUOTA_REST,
    "least_rest": SHORTEST_REST,
}

RULES = (
    # A subscription made with another key is refused like bad credentials, but no other one is concerned.
    Rule(code=KEY_MISMATCH, about="key", outcome="rejected", quarantine=True),
    Rule(status=400, code="bad_request", outcome="rejected"),
    Rule(status=401, code="unauthorized", **_REFUSED),
    Rule(status=403, code="forbidden", **_REFUSED),
    Rule(status=404, code="not_found", outcome="gone"),
    # Windows answers so when its own service throttles.
    Rule(status=406, code="throttled", **_THROTTLED),
    Rule(status=408, code="request_timeout", outcome="retry"),
    Rule(status=410, code="subscription_gone", outcome="gone"),
    Rule(status=413, code="payload_too_large", outcome="rejected"),
    Rule(status=425, code="too_early", outcome="retry"),
    Rule(status=429, code="too_many_requests", **_THROTTLED),
)

# A redirect, which is not followed, is a passing fault.
_ALL_RULES = (*RULES, Rule(status=range(400, 500), outcome="rejected"), Rule(outcome="retry"))

_MISMATCH_STATUS = frozenset({HTTPStatus.BAD_REQUEST, HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN})
# The words of Google, Mozilla and Apple.
_MISMATCH_WORDS = (
    "do not correspond to the credentials",
    "does not correspond to the sender id",
    "vapid public key mismatch",
    "vapidpkhashmismatch",
)


def classify(status: int, detail: str, retry_after: timedelta | None) -> Failure:
    """Return the outcome of an answer that did not take the message."""
    detail = detail.strip()[:_DETAIL_CHARACTERS]
    is_mismatch = status in _MISMATCH_STATUS and any(words in detail.lower() for words in _MISMATCH_WORDS)
    answer = Answer(
        status=status, about="key" if is_mismatch else None, detail=detail, retry_after=retry_after
    )
    return answers.classify(answer, _ALL_RULES)
