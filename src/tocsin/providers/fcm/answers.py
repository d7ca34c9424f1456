"""What FCM's answers mean, as a table."""

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

import msgspec

from tocsin.providers import answers
from tocsin.providers.answers import ALARM_REST, NEEDS_OPERATOR, UNLISTED, Answer, Failure, Rule, any_code

QUOTA_REST = timedelta(minutes=1)

RULES = (
    Rule(status=400, code="INVALID_ARGUMENT", about="token", outcome="gone"),
    Rule(status=400, code="INVALID_ARGUMENT", about="payload", outcome="rejected"),
    Rule(status=401, code="UNAUTHENTICATED", **NEEDS_OPERATOR),
    # Firebase lacks the APNs key: only iOS devices are out of reach, and none of them is at fault.
    Rule(status=401, code="THIRD_PARTY_AUTH_ERROR", outcome="defer", alarm=True, rest=ALARM_REST),
    Rule(status=403, code="SENDER_ID_MISMATCH", outcome="rejected", quarantine=True),
    Rule(status=403, code="PERMISSION_DENIED", **NEEDS_OPERATOR),
    Rule(status=404, code="UNREGISTERED", outcome="gone"),
    # The project itself is unknown: a wrong setting, not a dead device.
    Rule(status=404, code="NOT_FOUND", **NEEDS_OPERATOR),
    Rule(status=429, code="QUOTA_EXCEEDED", about="device", outcome="defer", rest=QUOTA_REST),
    Rule(status=429, code="QUOTA_EXCEEDED", about="project", outcome="defer", pauses=True, rest=QUOTA_REST),
    Rule(status=500, code="INTERNAL", outcome="retry"),
    Rule(status=503, code="UNAVAILABLE", outcome="retry"),
)

_ALL_RULES = (
    *RULES,
    *any_code(RULES, "UNAUTHENTICATED", "PERMISSION_DENIED", "NOT_FOUND"),
    Rule(status=429, outcome="defer", pauses=True, rest=QUOTA_REST),
    *UNLISTED,
)


class _Error(msgspec.Struct, frozen=True):
    message: str = ""
    status: str = ""
    details: list[dict[str, Any]] = []


class _Body(msgspec.Struct, frozen=True):
    error: _Error = _Error()


def classify(status: int, body: bytes, retry_after: timedelta | None) -> Failure:
    """Return the outcome of an answer other than 200."""
    decoded = answers.decode(body, _Body)
    error = decoded.error if decoded else _Error(message="the answer was not the JSON that FCM gives")
    own_codes = [str(detail["errorCode"]) for detail in error.details if detail.get("errorCode")]
    code = own_codes[0] if own_codes else error.status or f"HTTP_{status}"
    answer = Answer(
        status=status, code=code, about=_about(code, error), detail=error.message, retry_after=retry_after
    )
    return answers.classify(answer, _ALL_RULES)


def _about(code: str, error: _Error) -> str | None:
    """Return what INVALID_ARGUMENT or QUOTA_EXCEEDED is about, as each means two things."""
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
