"""What APNs' answers mean, as a table."""

from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from typing import Literal, assert_never

import msgspec

from tocsin.domain.delivery.message import PushType
from tocsin.domain.delivery.outcome import Defer, Gone, Rejected, Retry

UPDATES_REST = timedelta(minutes=1)
ALARM_REST = timedelta(minutes=5)
UNPROVEN = "APNs has taken no message since the start: check apns.environment and apns.topic"


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """One row: an HTTP status and Apple's reason, and what follows from them.

    `about` narrows a reason that means something else for one push type. `doubtful` tells that a wrong
    setting brings the same answer for every device: it is taken at its word only once a message got through.
    """

    status: int
    code: str
    about: PushType | None = None
    outcome: Literal["retry", "defer", "rejected", "gone"]
    doubtful: bool = False
    pauses: bool = False
    alarm: bool = False
    speaks_against: Literal["provider", "target"] = "provider"
    rest: timedelta = timedelta()


def _rejected(status: int, code: str, *, doubtful: bool = False) -> Rule:
    return Rule(status=status, code=code, outcome="rejected", doubtful=doubtful)


def _credentials(code: str) -> Rule:
    return Rule(status=403, code=code, outcome="defer", pauses=True, alarm=True, rest=ALARM_REST)


RULES = (
    # Every phone of the wrong environment is answered so, and every phone of another app.
    Rule(status=400, code="BadDeviceToken", outcome="gone", doubtful=True),
    Rule(status=400, code="DeviceTokenNotForTopic", outcome="gone", doubtful=True),
    # PushKit gives an app a token of its own: the one for alerts is alive all the same.
    Rule(status=400, code="DeviceTokenNotForTopic", about="voip", outcome="rejected"),
    _rejected(400, "BadCollapseId"),
    _rejected(400, "BadExpirationDate"),
    _rejected(400, "BadMessageId"),
    _rejected(400, "BadPriority"),
    _rejected(400, "BadTopic", doubtful=True),
    _rejected(400, "DuplicateHeaders"),
    # The connection was idle for too long, which says nothing against the message.
    Rule(status=400, code="IdleTimeout", outcome="retry"),
    _rejected(400, "InvalidPushType"),
    _rejected(400, "MissingDeviceToken"),
    _rejected(400, "MissingTopic", doubtful=True),
    _rejected(400, "PayloadEmpty"),
    _rejected(400, "TopicDisallowed", doubtful=True),
    _credentials("BadCertificate"),
    _credentials("BadCertificateEnvironment"),
    _credentials("BadEnvironmentKeyIdInToken"),
    # A token signed anew was refused too: the clock of this machine is wrong.
    _credentials("ExpiredProviderToken"),
    _credentials("Forbidden"),
    _credentials("InvalidProviderToken"),
    _credentials("MissingProviderToken"),
    _credentials("UnrelatedKeyIdInToken"),
    _rejected(404, "BadPath", doubtful=True),
    _rejected(405, "MethodNotAllowed", doubtful=True),
    Rule(status=410, code="ExpiredToken", outcome="gone"),
    Rule(status=410, code="Unregistered", outcome="gone"),
    _rejected(413, "PayloadTooLarge"),
    Rule(
        status=429,
        code="TooManyProviderTokenUpdates",
        outcome="defer",
        pauses=True,
        rest=UPDATES_REST,
    ),
    Rule(status=429, code="TooManyRequests", outcome="retry", speaks_against="target"),
    Rule(status=500, code="InternalServerError", outcome="retry"),
    Rule(status=503, code="ServiceUnavailable", outcome="retry"),
    Rule(status=503, code="Shutdown", outcome="retry"),
)

# Without one of Apple's reasons a gateway or a proxy spoke, and neither device nor message is at fault.
_NOT_APPLE = {
    HTTPStatus.UNAUTHORIZED,
    HTTPStatus.FORBIDDEN,
    HTTPStatus.NOT_FOUND,
    HTTPStatus.METHOD_NOT_ALLOWED,
    HTTPStatus.PROXY_AUTHENTICATION_REQUIRED,
    HTTPStatus.GONE,
    HTTPStatus.MISDIRECTED_REQUEST,
}
_PASSING = {HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY}
_ROWS = {(rule.status, rule.code, rule.about): rule for rule in RULES}


class _Body(msgspec.Struct, frozen=True):
    reason: str = ""
    timestamp: int | None = None


_decoder = msgspec.json.Decoder(_Body)


def classify(
    status: int,
    body: bytes,
    retry_after: timedelta | None,
    *,
    push_type: PushType = "alert",
    proven: bool = True,
) -> Retry | Defer | Rejected | Gone:
    """Say what an answer other than 200 means; `proven` tells that APNs took a message before."""
    answer = _read(body)
    rule = _ROWS.get((status, answer.reason, push_type)) or _ROWS.get((status, answer.reason, None))
    if rule is None:
        return _unlisted(status, answer, retry_after)
    code = rule.code
    if rule.doubtful and not proven:
        return Defer(code, ALARM_REST, UNPROVEN, pauses=False, alarm=True)
    match rule.outcome:
        case "retry":
            return Retry(code, after=retry_after, speaks_against=rule.speaks_against)
        case "defer":
            after = max(retry_after or rule.rest, rule.rest)
            return Defer(code, after, pauses=rule.pauses, alarm=rule.alarm)
        case "rejected":
            return Rejected(code)
        case "gone":
            return Gone(code, since=_moment(answer.timestamp))
        case _:
            assert_never(rule.outcome)


def _unlisted(status: int, answer: _Body, retry_after: timedelta | None) -> Retry | Defer | Rejected | Gone:
    code = answer.reason or f"HTTP_{status}"
    detail = "" if answer.reason else "the answer was not the JSON that APNs gives"
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR or status in _PASSING:
        return Retry(code, detail, retry_after)
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        return Defer(code, max(retry_after or UPDATES_REST, UPDATES_REST), detail)
    if status == HTTPStatus.GONE and answer.reason:
        return Gone(code, detail, _moment(answer.timestamp))
    if status < HTTPStatus.BAD_REQUEST or status == HTTPStatus.FORBIDDEN:
        return Defer(code, ALARM_REST, detail, alarm=True)
    if status in _NOT_APPLE and not answer.reason:
        return Defer(code, ALARM_REST, detail, alarm=True)
    return Rejected(code, detail)


def _read(body: bytes) -> _Body:
    try:
        return _decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _Body()


def _moment(milliseconds: int | None) -> datetime | None:
    """Read Apple's timestamp; one that no calendar has counts as not said."""
    if milliseconds is None:
        return None
    try:
        return datetime.fromtimestamp(milliseconds / 1_000, UTC)
    except (ValueError, OverflowError, OSError):
        return None
