"""The rule engine that turns a provider's answer into an outcome, for the tables of all providers."""

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import Any, Literal, TypeVar, assert_never

import msgspec

from tocsin.domain.delivery.outcome import Defer, Gone, Rejected, Retry

T = TypeVar("T")

ALARM_REST = timedelta(minutes=5)

NEEDS_OPERATOR: dict[str, Any] = {"outcome": "defer", "pauses": True, "alarm": True, "rest": ALARM_REST}
"""Of rows about credentials and settings: the provider rests until an operator has acted."""

Failure = Retry | Defer | Rejected | Gone


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """One row of a provider's table: which answers it matches, and the outcome that follows.

    A `status` or `about` of None and an empty `code` match any answer; an answer without a code is matched
    by its status alone. `rest` is how long a deferred delivery waits unless the answer has a Retry-After, and
    `least_rest` the shortest Retry-After that is honoured; None means `rest`. A wrong setting brings a
    `doubtful` answer for every device. With the outcome `split` the provider sends the batch again in parts
    within the same attempt.
    """

    status: int | range | None = None
    code: str = ""
    about: str | None = None
    outcome: Literal["retry", "defer", "rejected", "gone", "split"]
    pauses: bool = False
    alarm: bool = False
    quarantine: bool = False
    doubtful: bool = False
    speaks_against: Literal["provider", "target"] = "provider"
    rest: timedelta = timedelta()
    least_rest: timedelta | None = None

    def matches(self, answer: "Answer") -> bool:
        """Return whether this row is about an answer."""
        statuses = self.status
        return (
            (answer.status in statuses if isinstance(statuses, range) else statuses in {None, answer.status})
            and (not answer.code or self.code in {"", answer.code})
            and self.about in {None, answer.about}
        )


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What rules look at in a provider's answer, and what the outcome carries on from it."""

    status: int
    code: str = ""
    about: str | None = None
    detail: str = ""
    retry_after: timedelta | None = None
    since: datetime | None = None


UNLISTED = (
    *(Rule(status=status, outcome="retry") for status in (408, 425, range(500, 1_000))),
    # No provider redirects: a proxy answered, or the address is wrong.
    Rule(status=range(400), **NEEDS_OPERATOR),
    Rule(outcome="rejected"),
)
"""The last rows of a table, for answers that are in no other row."""


def decode(body: bytes | msgspec.Raw, type_: type[T]) -> T | None:
    """Decode the JSON body of an answer; None for anything else."""
    try:
        return msgspec.json.decode(body, type=type_)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def rows(status: int | None, *codes: str, **outcome: Any) -> Iterator[Rule]:
    """Build one row for each code, all with the same outcome."""
    return (Rule(status=status, code=code, **outcome) for code in codes)


def any_code(rules: Iterable[Rule], *codes: str) -> Iterator[Rule]:
    """Copy the rows of some codes, to match every other code of the same status as well.

    A status with an unknown code, or with none, comes from a gateway or a proxy.
    """
    return (msgspec.structs.replace(rule, code="") for rule in rules if rule.code in codes)


def first_match(answer: Answer, rules: Iterable[Rule]) -> Rule:
    """Return the first row that matches; the last row of a table has to match everything."""
    return next(rule for rule in rules if rule.matches(answer))


def outcome_of(rule: Rule, answer: Answer) -> Failure:
    """Build the outcome that a row gives an answer; a single message that cannot be split is rejected."""
    code = answer.code or rule.code or f"http_{answer.status}"
    match rule.outcome:
        case "retry":
            return Retry(code, answer.detail, answer.retry_after, speaks_against=rule.speaks_against)
        case "defer":
            least = rule.rest if rule.least_rest is None else rule.least_rest
            after = rule.rest if answer.retry_after is None else max(answer.retry_after, least)
            return Defer(code, after, answer.detail, pauses=rule.pauses, alarm=rule.alarm)
        case "rejected" | "split":
            return Rejected(code, answer.detail, quarantine=rule.quarantine)
        case "gone":
            return Gone(code, answer.detail, answer.since)
        case _:
            assert_never(rule.outcome)


def classify(answer: Answer, rules: Iterable[Rule]) -> Failure:
    """Return the outcome of the first row that matches an answer."""
    return outcome_of(first_match(answer, rules), answer)
