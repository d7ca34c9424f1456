"""What the answers of Redis to an XADD mean."""

from collections.abc import Mapping, Sequence
from datetime import timedelta

from redis.exceptions import (
    AuthenticationError,
    BusyLoadingError,
    ClusterDownError,
    MasterDownError,
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    ResponseError,
    TryAgainError,
)

from tocsin.domain.delivery.outcome import Defer, Retry
from tocsin.providers.answers import Answer, Failure, Rule, classify
from tocsin.providers.redis_streams.connection import LostError

NOT_READY = ("READONLY", "MASTERDOWN", "NOREPLICAS", "MISCONF", "CLUSTERDOWN", "TRYAGAIN", "BUSY")
"""States of the whole server that end by themselves, such as a failover. `LOADING` is another, for which the
client library drops the connection. With `MISCONF` Redis cannot save its data."""

LONGEST_DETAIL = 200
LONGEST_WORD = 20
REST = timedelta(seconds=1)

# The library takes these codes off the text.
_CODES: Mapping[type[ResponseError], str] = {
    ReadOnlyError: "READONLY",
    MasterDownError: "MASTERDOWN",
    ClusterDownError: "CLUSTERDOWN",
    TryAgainError: "TRYAGAIN",
    OutOfMemoryError: "OOM",
    NoPermissionError: "NOPERM",
}


def stream_rules(code: str) -> Sequence[Rule]:
    """Build the table of a stream, whose entries fail with one code; `about` is the code of Redis."""
    return (
        *(Rule(code=code, about=about, outcome="defer", pauses=True, rest=REST) for about in NOT_READY),
        # Refused for this entry, such as WRONGTYPE or OOM: its attempts count.
        Rule(code=code, outcome="retry", speaks_against="target"),
    )


def error_word(error: ResponseError) -> str:
    """Return the word by which an answer of Redis begins, such as WRONGTYPE or OOM."""
    word = str(error).partition(" ")[0]
    return _CODES.get(type(error)) or (word[:LONGEST_WORD] if word.isupper() else "ERR")


def classify_refusal(error: ResponseError, rules: Sequence[Rule]) -> Failure:
    """Return the outcome of one entry that Redis refused."""
    text, about = str(error), error_word(error)
    detail = text if text.partition(" ")[0] == about else f"{about} {text}"
    return classify(Answer(status=0, about=about, detail=detail[:LONGEST_DETAIL]), rules)


def classify_loss(error: LostError, code: str) -> Retry | Defer:
    """Return the outcome of entries without an answer; those that were not sent spend no attempt."""
    if isinstance(error.__cause__, BusyLoadingError):
        return Defer(code, REST, "LOADING: Redis reads its data after a start")
    if error.sent:
        return Retry(code, f"{error}: no answer, so the entry may have been appended", uncertain=True)
    is_refused = isinstance(error.__cause__, AuthenticationError)
    return Defer(code, REST, f"{error}: nothing was sent to Redis", alarm=is_refused)
