"""What the answers of push services mean, as a table."""

from datetime import timedelta
from http import HTTPStatus
from typing import Literal, assert_never

import msgspec

from tocsin.domain.delivery.outcome import Defer, Gone, Rejected, Retry

QUOTA_REST = timedelta(minutes=1)
ALARM_REST = timedelta(minutes=5)
SHORTEST_REST = timedelta(seconds=1)
_DETAIL_CHARACTERS = 300

TAKEN = frozenset({HTTPStatus.OK, HTTPStatus.CREATED, HTTPStatus.ACCEPTED, HTTPStatus.NO_CONTENT})


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """One row: an HTTP status, and what follows from it."""

    status: int
    code: str
    outcome: Literal["retry", "defer", "rejected", "gone"]
    alarm: bool = False
    rest: timedelta = QUOTA_REST


RULES = (
    Rule(status=400, code="bad_request", outcome="rejected"),
    Rule(status=401, code="unauthorized", outcome="defer", alarm=True, rest=ALARM_REST),
    Rule(status=403, code="forbidden", outcome="defer", alarm=True, rest=ALARM_REST),
    Rule(status=404, code="not_found", outcome="gone"),
    # Windows says so when its own service throttles.
    Rule(status=406, code="throttled", outcome="defer"),
    Rule(status=408, code="request_timeout", outcome="retry"),
    Rule(status=410, code="subscription_gone", outcome="gone"),
    Rule(status=413, code="payload_too_large", outcome="rejected"),
    Rule(status=425, code="too_early", outcome="retry"),
    Rule(status=429, code="too_many_requests", outcome="defer"),
)

KEY_MISMATCH = "vapid_key_mismatch"
# A subscription belongs to the key it was made with. One made with another key is refused like bad
# credentials, by words alone (Google's, Mozilla's and Apple's), yet speaks against no other subscription.
_MISMATCH_STATUS = frozenset({HTTPStatus.BAD_REQUEST, HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN})
_MISMATCH_WORDS = (
    "do not correspond to the credentials",
    "does not correspond to the sender id",
    "vapid public key mismatch",
    "vapidpkhashmismatch",
)
_ROWS = {rule.status: rule for rule in RULES}


def classify(status: int, detail: str, retry_after: timedelta | None) -> Retry | Defer | Rejected | Gone:
    """Say what an answer means that did not take the message."""
    detail = detail.strip()[:_DETAIL_CHARACTERS]
    if status in _MISMATCH_STATUS and any(words in detail.lower() for words in _MISMATCH_WORDS):
        return Rejected(KEY_MISMATCH, detail, quarantine=True)
    rule = _ROWS.get(status) or _unlisted(status)
    match rule.outcome:
        case "retry":
            return Retry(rule.code, detail, retry_after)
        case "defer":
            after = rule.rest if retry_after is None else max(retry_after, SHORTEST_REST)
            # Whoever registers a subscription chooses what answers: a refusal speaks for that one alone.
            return Defer(rule.code, after, detail, pauses=not rule.alarm, alarm=rule.alarm)
        case "rejected":
            return Rejected(rule.code, detail)
        case "gone":
            return Gone(rule.code, detail)
        case _:
            assert_never(rule.outcome)


def _unlisted(status: int) -> Rule:
    """Read other refusals as about the message; a redirection, which is not followed, as a passing fault."""
    is_refusal = HTTPStatus.BAD_REQUEST <= status < HTTPStatus.INTERNAL_SERVER_ERROR
    return Rule(status=status, code=f"http_{status}", outcome="rejected" if is_refusal else "retry")
