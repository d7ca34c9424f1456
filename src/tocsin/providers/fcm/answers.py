"""What FCM's answers mean, as a table."""

from collections.abc import Iterable
from datetime import timedelta
from http import HTTPStatus
from typing import Any, Literal, assert_never

import msgspec

from tocsin.domain.delivery.outcome import Defer, Gone, Rejected, Retry

QUOTA_REST = timedelta(minutes=1)
ALARM_REST = timedelta(minutes=5)


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """One row: an HTTP status and FCM error code, and what follows from them.

    `about` narrows INVALID_ARGUMENT and QUOTA_EXCEEDED, which mean two things each.
    """

    status: int
    code: str
    about: Literal["token", "payload", "device", "project"] | None = None
    outcome: Literal["retry", "defer", "rejected", "gone"]
    pauses: bool = False
    alarm: bool = False
    quarantine: bool = False
    rest: timedelta = timedelta()


RULES = (
    Rule(status=400, code="INVALID_ARGUMENT", about="token", outcome="gone"),
    Rule(status=400, code="INVALID_ARGUMENT", about="payload", outcome="rejected"),
    Rule(status=401, code="UNAUTHENTICATED", outcome="defer", pauses=True, alarm=True, rest=ALARM_REST),
    # Firebase lacks the APNs key: iOS devices alone are out of reach, and none of them is at fault.
    Rule(status=401, code="THIRD_PARTY_AUTH_ERROR", outcome="defer", alarm=True, rest=ALARM_REST),
    Rule(status=403, code="SENDER_ID_MISMATCH", outcome="rejected", quarantine=True),
    Rule(status=403, code="PERMISSION_DENIED", outcome="defer", pauses=True, alarm=True, rest=ALARM_REST),
    Rule(status=404, code="UNREGISTERED", outcome="gone"),
    # The project itself is unknown: a wrong setting, not a dead device.
    Rule(status=404, code="NOT_FOUND", outcome="defer", pauses=True, alarm=True, rest=ALARM_REST),
    Rule(status=429, code="QUOTA_EXCEEDED", about="device", outcome="defer", rest=QUOTA_REST),
    Rule(status=429, code="QUOTA_EXCEEDED", about="project", outcome="defer", pauses=True, rest=QUOTA_REST),
    Rule(status=500, code="INTERNAL", outcome="retry"),
    Rule(status=503, code="UNAVAILABLE", outcome="retry"),
)

# Read so when a status comes with a code not listed or with none: then a gateway or a proxy spoke,
# and the deliveries are not at fault.
_USUAL_CODES = {401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND"}
_PASSING = {HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY}
_ROWS = {(rule.status, rule.code, rule.about): rule for rule in RULES}


class _Error(msgspec.Struct, frozen=True):
    message: str = ""
    status: str = ""
    details: list[dict[str, Any]] = []


class _Body(msgspec.Struct, frozen=True):
    error: _Error = _Error()


_decoder = msgspec.json.Decoder(_Body)


def classify(status: int, body: bytes, retry_after: timedelta | None) -> Retry | Defer | Rejected | Gone:
    """Say what an answer other than 200 means."""
    error = _read(body)
    code = _code(error, status)
    rule = _ROWS.get((status, code, _about(code, error))) or _ROWS.get(
        (status, _USUAL_CODES.get(status, code), None)
    )
    detail = error.message
    if rule is None:
        if status < HTTPStatus.BAD_REQUEST:
            return Defer(code, ALARM_REST, detail, alarm=True)
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR or status in _PASSING:
            return Retry(code, detail, retry_after)
        if status == HTTPStatus.TOO_MANY_REQUESTS:
            return Defer(code, max(retry_after or QUOTA_REST, QUOTA_REST), detail)
        return Rejected(code, detail)
    match rule.outcome:
        case "retry":
            return Retry(code, detail, retry_after)
        case "defer":
            after = max(retry_after or rule.rest, rule.rest)
            return Defer(code, after, detail, pauses=rule.pauses, alarm=rule.alarm)
        case "rejected":
            return Rejected(code, detail, quarantine=rule.quarantine)
        case "gone":
            return Gone(code, detail)
        case _:
            assert_never(rule.outcome)


def _read(body: bytes) -> _Error:
    try:
        return _decoder.decode(body).error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _Error(message="the answer was not the JSON that FCM gives")


def _code(error: _Error, status: int) -> str:
    for detail in error.details:
        if code := detail.get("errorCode"):
            return str(code)
    return error.status or f"HTTP_{status}"


def _about(code: str, error: _Error) -> Literal["token", "payload", "device", "project"] | None:
    if code == "INVALID_ARGUMENT":
        fields = set(_violations(error.details, "fieldViolations", "field"))
        if fields:
            return "token" if fields <= {"message.token", "message.fid"} else "payload"
        named_by_fcm = any("errorCode" in detail for detail in error.details)
        return "token" if named_by_fcm and "registration token" in error.message.lower() else "payload"
    if code == "QUOTA_EXCEEDED":
        subjects = _violations(error.details, "violations", "subject")
        return "device" if any(subject.startswith("device") for subject in subjects) else "project"
    return None


def _violations(details: Iterable[dict[str, Any]], key: str, name: str) -> Iterable[str]:
    for detail in details:
        violations = detail.get(key)
        for violation in violations if isinstance(violations, list) else ():
            if isinstance(violation, dict):
                yield str(violation.get(name, ""))
