"""What APNs' answers mean, as a table."""

from datetime import UTC, datetime, timedelta

import msgspec

from tocsin.domain.delivery.message import PushType
from tocsin.domain.delivery.outcome import Defer
from tocsin.providers.answers import (
    ALARM_REST,
    NEEDS_OPERATOR,
    UNLISTED,
    Answer,
    Failure,
    Rule,
    decode,
    first_match,
    outcome_of,
    rows,
)

UPDATES_REST = timedelta(minutes=1)
UNPROVEN = "APNs has taken no message since the start: check apns.environment and apns.topic"

RULES = (
    # Every phone of the wrong environment or of another app gets this answer.
    Rule(status=400, code="BadDeviceToken", outcome="gone", doubtful=True),
    # PushKit gives an app a token of its own: the one for alerts is alive all the same.
    Rule(status=400, code="DeviceTokenNotForTopic", about="voip", outcome="rejected"),
    Rule(status=400, code="DeviceTokenNotForTopic", outcome="gone", doubtful=True),
    *rows(400, "BadTopic", "MissingTopic", "TopicDisallowed", outcome="rejected", doubtful=True),
    *rows(400, "BadCollapseId", "BadExpirationDate", "BadMessageId", "BadPriority", outcome="rejected"),
    *rows(400, "DuplicateHeaders", "InvalidPushType", "MissingDeviceToken", outcome="rejected"),
    Rule(status=400, code="PayloadEmpty", outcome="rejected"),
    # The connection was idle for too long, which says nothing against the message.
    Rule(status=400, code="IdleTimeout", outcome="retry"),
    *rows(403, "BadCertificate", "BadCertificateEnvironment", "BadEnvironmentKeyIdInToken", **NEEDS_OPERATOR),
    # A token signed anew was refused too: the clock of this machine is wrong.
    Rule(status=403, code="ExpiredProviderToken", **NEEDS_OPERATOR),
    *rows(403, "Forbidden", "InvalidProviderToken", "MissingProviderToken", **NEEDS_OPERATOR),
    Rule(status=403, code="UnrelatedKeyIdInToken", **NEEDS_OPERATOR),
    Rule(status=404, code="BadPath", outcome="rejected", doubtful=True),
    Rule(status=405, code="MethodNotAllowed", outcome="rejected", doubtful=True),
    *rows(410, "ExpiredToken", "Unregistered", outcome="gone"),
    Rule(status=413, code="PayloadTooLarge", outcome="rejected"),
    Rule(status=429, code="TooManyProviderTokenUpdates", outcome="defer", pauses=True, rest=UPDATES_REST),
    Rule(status=429, code="TooManyRequests", outcome="retry", speaks_against="target"),
    Rule(status=500, code="InternalServerError", outcome="retry"),
    *rows(503, "ServiceUnavailable", "Shutdown", outcome="retry"),
)

# Without one of Apple's reasons a gateway or a proxy answered, and neither device nor message is at fault.
_NOT_APPLE = (401, 403, 404, 405, 407, 410, 421)

_ALL_RULES = (
    *RULES,
    *(Rule(status=status, code=f"HTTP_{status}", **NEEDS_OPERATOR) for status in _NOT_APPLE),
    Rule(status=403, **NEEDS_OPERATOR),
    Rule(status=410, outcome="gone"),
    Rule(status=429, outcome="defer", pauses=True, rest=UPDATES_REST),
    *UNLISTED,
)


class _Body(msgspec.Struct, frozen=True):
    reason: str = ""
    timestamp: int | None = None


def classify(
    status: int,
    body: bytes,
    retry_after: timedelta | None,
    *,
    push_type: PushType = "alert",
    proven: bool = True,
) -> Failure:
    """Return the outcome of an answer other than 200; `proven` means that APNs took a message before."""
    said = decode(body, _Body) or _Body()
    answer = Answer(
        status=status,
        code=said.reason or f"HTTP_{status}",
        about=push_type,
        detail="" if said.reason else "the answer was not the JSON that APNs gives",
        retry_after=retry_after,
        since=_moment(said.timestamp),
    )
    rule = first_match(answer, _ALL_RULES)
    if rule.doubtful and not proven:
        return Defer(answer.code, ALARM_REST, UNPROVEN, pauses=False, alarm=True)
    return outcome_of(rule, answer)


def _moment(milliseconds: int | None) -> datetime | None:
    """Read Apple's timestamp; one that no calendar has counts as none."""
    if milliseconds is None:
        return None
    try:
        return datetime.fromtimestamp(milliseconds / 1_000, UTC)
    except (ValueError, OverflowError, OSError):
        return None
