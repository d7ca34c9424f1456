"""Google's error bodies, as FCM and the gateway before it send them."""

from collections.abc import Sequence
from typing import Any

import msgspec

from tocsin.sandbox.answers import Answer

_SIGN_IN = (
    "Expected OAuth 2 access token, login cookie or other valid authentication credential. "
    "See https://developers.google.com/identity/sign-in/web/devconsole-project."
)
_METHOD = {"service": "fcm.googleapis.com", "method": "google.firebase.fcm.v1.FcmService.SendMessage"}
INVALID_TOKEN_TEXT = "The registration token is not a valid FCM registration token"  # noqa: S105 - Google's words


class Violation(msgspec.Struct, frozen=True):
    """One field of a request that Google will not have, and why."""

    field: str
    description: str


def _fcm_error(code: str) -> dict[str, Any]:
    return {"@type": "type.googleapis.com/google.firebase.fcm.v1.FcmError", "errorCode": code}


def _bad_request(violations: Sequence[Violation]) -> dict[str, Any]:
    detail: dict[str, Any] = {"@type": "type.googleapis.com/google.rpc.BadRequest"}
    return detail | {"fieldViolations": list(violations)} if violations else detail


def _error_info(reason: str, domain: str, metadata: dict[str, str]) -> dict[str, Any]:
    kind = "type.googleapis.com/google.rpc.ErrorInfo"
    return {"@type": kind, "reason": reason, "domain": domain, "metadata": metadata}


def _quota_failure(subject: str, description: str) -> dict[str, Any]:
    violation = {"subject": subject, "description": description}
    return {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [violation]}


def _error(code: str, http_status: int, status: str, message: str, *details: dict[str, Any]) -> Answer:
    error: dict[str, Any] = {"code": http_status, "message": message, "status": status}
    if details:
        error["details"] = details
    return Answer(code, http_status, msgspec.json.format(msgspec.json.encode({"error": error}), indent=2))


def malformed(violations: Sequence[Violation]) -> Answer:
    """Refuse fields that do not fit the request's schema; the gateway says so, FCM never sees it."""
    message = "\n".join(violation.description for violation in violations)
    return _error("INVALID_ARGUMENT", 400, "INVALID_ARGUMENT", message, _bad_request(violations))


def unparsable(body: bytes) -> Answer:
    """Refuse a body that is not JSON."""
    message = (
        "Invalid JSON payload received. Unexpected token.\n" + body[:40].decode(errors="replace") + "\n^"
    )
    return _error("INVALID_ARGUMENT", 400, "INVALID_ARGUMENT", message)


def invalid_argument(message: str, *fields: str) -> Answer:
    """Refuse a well-formed message that FCM itself will not take."""
    violations = [Violation(field, message) for field in fields]
    details = (_bad_request(violations), _fcm_error("INVALID_ARGUMENT"))
    return _error("INVALID_ARGUMENT", 400, "INVALID_ARGUMENT", message, *details)


def permission_denied(project: str) -> Answer:
    """Refuse a project that is not there or not the caller's; Google does not tell which."""
    resource = f"//cloudresourcemanager.googleapis.com/projects/{project}"
    permission = "cloudmessaging.messages.create"
    message = f"Permission '{permission}' denied on resource '{resource}' (or it may not exist)."
    metadata = {"resource": f"projects/{project}", "permission": permission}
    info = _error_info("IAM_PERMISSION_DENIED", "cloudresourcemanager.googleapis.com", metadata)
    return _error("PERMISSION_DENIED", 403, "PERMISSION_DENIED", message, info)


CREDENTIALS_MISSING = _error(
    "UNAUTHENTICATED",
    401,
    "UNAUTHENTICATED",
    f"Request is missing required authentication credential. {_SIGN_IN}",
    _error_info("CREDENTIALS_MISSING", "googleapis.com", _METHOD),
)
UNAUTHENTICATED = _error(
    "UNAUTHENTICATED",
    401,
    "UNAUTHENTICATED",
    f"Request had invalid authentication credentials. {_SIGN_IN}",
    _error_info("ACCESS_TOKEN_EXPIRED", "googleapis.com", _METHOD),
)
SCOPE_INSUFFICIENT = _error(
    "PERMISSION_DENIED",
    403,
    "PERMISSION_DENIED",
    "Request had insufficient authentication scopes.",
    _error_info("ACCESS_TOKEN_SCOPE_INSUFFICIENT", "googleapis.com", _METHOD),
)
CONDITION_INVALID = _error(
    "INVALID_ARGUMENT", 400, "INVALID_ARGUMENT", "Request contains an invalid argument."
)
INVALID_TOKEN = _error(
    "INVALID_TOKEN",
    400,
    "INVALID_ARGUMENT",
    INVALID_TOKEN_TEXT,
    _fcm_error("INVALID_ARGUMENT"),
    _bad_request([Violation("message.token", INVALID_TOKEN_TEXT)]),
)
UNREGISTERED = _error(
    "UNREGISTERED", 404, "NOT_FOUND", "Requested entity was not found.", _fcm_error("UNREGISTERED")
)
QUOTA_EXCEEDED = _error(
    "QUOTA_EXCEEDED",
    429,
    "RESOURCE_EXHAUSTED",
    "Message rate exceeded. Reduce the overall rate of messages sent by this project.",
    _quota_failure("project", "Message rate exceeded"),
    _fcm_error("QUOTA_EXCEEDED"),
)
DEVICE_QUOTA_EXCEEDED = _error(
    "DEVICE_QUOTA_EXCEEDED",
    429,
    "RESOURCE_EXHAUSTED",
    "Device message rate exceeded. Reduce the number of messages sent to this device.",
    _quota_failure("device", "Device message rate exceeded"),
    _fcm_error("QUOTA_EXCEEDED"),
)
UNAVAILABLE = _error(
    "UNAVAILABLE", 503, "UNAVAILABLE", "The service is currently unavailable.", _fcm_error("UNAVAILABLE")
)

_FCM_ERRORS = (
    invalid_argument("Invalid value at 'message.data'.", "message.data"),
    INVALID_TOKEN,
    UNAUTHENTICATED,
    _error(
        "THIRD_PARTY_AUTH_ERROR",
        401,
        "UNAUTHENTICATED",
        "Auth error from APNS or Web Push Service",
        _fcm_error("THIRD_PARTY_AUTH_ERROR"),
        {
            "@type": "type.googleapis.com/google.firebase.fcm.v1.ApnsError",
            "statusCode": 403,
            "reason": "InvalidProviderToken",
        },
    ),
    permission_denied("sandbox"),
    _error(
        "SENDER_ID_MISMATCH", 403, "PERMISSION_DENIED", "SenderId mismatch", _fcm_error("SENDER_ID_MISMATCH")
    ),
    UNREGISTERED,
    QUOTA_EXCEEDED,
    DEVICE_QUOTA_EXCEEDED,
    _error(
        # The gateway's own limit comes without FCM's error detail.
        "RATE_LIMIT_EXCEEDED",
        429,
        "RESOURCE_EXHAUSTED",
        "Quota exceeded for quota metric 'Send requests' and limit 'Send requests per minute' "
        "of service 'fcm.googleapis.com' for consumer 'project_number:100000000000'.",
        _error_info(
            "RATE_LIMIT_EXCEEDED",
            "googleapis.com",
            {
                "service": "fcm.googleapis.com",
                "consumer": "projects/100000000000",
                "quota_metric": "fcm.googleapis.com/send_requests",
                "quota_unit": "1/min/{project}",
                "quota_limit": "SendsPerMinutePerProject",
                "quota_limit_value": "600000",
                "quota_location": "global",
            },
        ),
    ),
    _error("INTERNAL", 500, "INTERNAL", "Internal error encountered.", _fcm_error("INTERNAL")),
    UNAVAILABLE,
)

_OTHER_STATUSES = (
    ("FAILED_PRECONDITION", 400, "Precondition check failed."),
    ("OUT_OF_RANGE", 400, "Client specified an invalid range."),
    ("NOT_FOUND", 404, "Requested entity was not found."),
    ("ABORTED", 409, "The operation was aborted."),
    ("ALREADY_EXISTS", 409, "Requested entity already exists"),
    ("CONFLICT", 409, "Conflict."),
    ("RESOURCE_EXHAUSTED", 429, "Resource has been exhausted (e.g. check quota)."),
    ("CANCELLED", 499, "The operation was cancelled."),
    ("DATA_LOSS", 500, "Unrecoverable data loss or corruption."),
    ("UNKNOWN", 500, "Unknown error."),
    ("DEADLINE_EXCEEDED", 504, "Deadline expired before operation could complete."),
)

REFUSALS: dict[str, Answer] = {answer.code: answer for answer in _FCM_ERRORS} | {
    status: _error(status, http_status, status, message) for status, http_status, message in _OTHER_STATUSES
}
"""Every error that can be scripted, by the code it is scripted and counted under."""
