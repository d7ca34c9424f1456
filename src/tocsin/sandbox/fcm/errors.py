"""Google's error bodies, as FCM and the API gateway before it send them."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from tocsin.sandbox.responses import Response

_STATUSES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
}
_SIGN_IN = (
    "Expected OAuth 2 access token, login cookie or other valid authentication credential. "
    "See https://developers.google.com/identity/sign-in/web/devconsole-project."
)
_INVALID_TOKEN = "The registration token is not a valid FCM registration token"  # noqa: S105 - Google's text
_RATE_LIMIT = (
    "Quota exceeded for quota metric 'Send requests' and limit 'Send requests per minute' "
    "of service 'fcm.googleapis.com' for consumer 'project_number:100000000000'."
)


class Violation(msgspec.Struct, frozen=True):
    """One field of a request that is not valid, and why."""

    field: str
    description: str


def _detail(type_name: str, **fields: Any) -> dict[str, Any]:
    return {"@type": f"type.googleapis.com/google.{type_name}", **fields}


def _fcm_error(code: str) -> dict[str, Any]:
    return _detail("firebase.fcm.v1.FcmError", errorCode=code)


def _bad_request(violations: Sequence[Violation]) -> dict[str, Any]:
    return _detail("rpc.BadRequest", **{"fieldViolations": list(violations)} if violations else {})


def _error_info(reason: str, **metadata: str) -> dict[str, Any]:
    return _detail("rpc.ErrorInfo", reason=reason, domain="googleapis.com", metadata=metadata)


def _auth_info(reason: str) -> dict[str, Any]:
    method = "google.firebase.fcm.v1.FcmService.SendMessage"
    return _error_info(reason, service="fcm.googleapis.com", method=method)


def _quota_failure(subject: str, description: str) -> dict[str, Any]:
    return _detail("rpc.QuotaFailure", violations=[{"subject": subject, "description": description}])


def _error(
    code: str, http_status: int, message: str, *details: dict[str, Any], status: str | None = None
) -> Response:
    status = status or _STATUSES[http_status]
    error: dict[str, Any] = {"code": http_status, "message": message, "status": status}
    if details:
        error["details"] = details
    return Response(code, http_status, msgspec.json.format(msgspec.json.encode({"error": error}), indent=2))


def malformed(violations: Sequence[Violation]) -> Response:
    """Build the gateway's error for fields that do not fit the schema; FCM never sees the request."""
    message = "\n".join(violation.description for violation in violations)
    return _error("INVALID_ARGUMENT", 400, message, _bad_request(violations))


def unparsable(body: bytes) -> Response:
    """Build the gateway's error for a body that is not a JSON object."""
    start = body[:40].decode(errors="replace")
    return _error("INVALID_ARGUMENT", 400, f"Invalid JSON payload received. Unexpected token.\n{start}\n^")


def invalid_argument(message: str, *fields: str) -> Response:
    """Build FCM's own error for a well-formed message."""
    violations = [Violation(field, message) for field in fields]
    return _error("INVALID_ARGUMENT", 400, message, _bad_request(violations), _fcm_error("INVALID_ARGUMENT"))


def permission_denied(project: str) -> Response:
    """Build the error for a project that is not the caller's or does not exist, which look the same."""
    resource = f"//cloudresourcemanager.googleapis.com/projects/{project}"
    permission = "cloudmessaging.messages.create"
    message = f"Permission '{permission}' denied on resource '{resource}' (or it may not exist)."
    info = _error_info("IAM_PERMISSION_DENIED", resource=f"projects/{project}", permission=permission)
    info["domain"] = "cloudresourcemanager.googleapis.com"
    return _error("PERMISSION_DENIED", 403, message, info)


CREDENTIALS_MISSING = _error(
    "UNAUTHENTICATED",
    401,
    f"Request is missing required authentication credential. {_SIGN_IN}",
    _auth_info("CREDENTIALS_MISSING"),
)
SCOPE_INSUFFICIENT = _error(
    "PERMISSION_DENIED",
    403,
    "Request had insufficient authentication scopes.",
    _auth_info("ACCESS_TOKEN_SCOPE_INSUFFICIENT"),
)
CONDITION_INVALID = _error("INVALID_ARGUMENT", 400, "Request contains an invalid argument.")

_FCM_ERRORS: Mapping[str, tuple[int, str, Sequence[dict[str, Any]]]] = {
    "INVALID_TOKEN": (
        400,
        _INVALID_TOKEN,
        [_fcm_error("INVALID_ARGUMENT"), _bad_request([Violation("message.token", _INVALID_TOKEN)])],
    ),
    "UNAUTHENTICATED": (
        401,
        f"Request had invalid authentication credentials. {_SIGN_IN}",
        [_auth_info("ACCESS_TOKEN_EXPIRED")],
    ),
    "THIRD_PARTY_AUTH_ERROR": (
        401,
        "Auth error from APNS or Web Push Service",
        [
            _fcm_error("THIRD_PARTY_AUTH_ERROR"),
            _detail("firebase.fcm.v1.ApnsError", statusCode=403, reason="InvalidProviderToken"),
        ],
    ),
    "SENDER_ID_MISMATCH": (403, "SenderId mismatch", [_fcm_error("SENDER_ID_MISMATCH")]),
    "UNREGISTERED": (404, "Requested entity was not found.", [_fcm_error("UNREGISTERED")]),
    "QUOTA_EXCEEDED": (
        429,
        "Message rate exceeded. Reduce the overall rate of messages sent by this project.",
        [_quota_failure("project", "Message rate exceeded"), _fcm_error("QUOTA_EXCEEDED")],
    ),
    "DEVICE_QUOTA_EXCEEDED": (
        429,
        "Device message rate exceeded. Reduce the number of messages sent to this device.",
        [_quota_failure("device", "Device message rate exceeded"), _fcm_error("QUOTA_EXCEEDED")],
    ),
    # The gateway's own limit comes without FCM's error detail.
    "RATE_LIMIT_EXCEEDED": (
        429,
        _RATE_LIMIT,
        [
            _error_info(
                "RATE_LIMIT_EXCEEDED",
                service="fcm.googleapis.com",
                consumer="projects/100000000000",
                quota_metric="fcm.googleapis.com/send_requests",
                quota_unit="1/min/{project}",
                quota_limit="SendsPerMinutePerProject",
                quota_limit_value="600000",
                quota_location="global",
            )
        ],
    ),
    "INTERNAL": (500, "Internal error encountered.", [_fcm_error("INTERNAL")]),
    "UNAVAILABLE": (503, "The service is currently unavailable.", [_fcm_error("UNAVAILABLE")]),
}

_OTHER_STATUSES: Mapping[str, tuple[int, str]] = {
    "FAILED_PRECONDITION": (400, "Precondition check failed."),
    "OUT_OF_RANGE": (400, "Client specified an invalid range."),
    "NOT_FOUND": (404, "Requested entity was not found."),
    "ABORTED": (409, "The operation was aborted."),
    "ALREADY_EXISTS": (409, "Requested entity already exists"),
    "CONFLICT": (409, "Conflict."),
    "RESOURCE_EXHAUSTED": (429, "Resource has been exhausted (e.g. check quota)."),
    "CANCELLED": (499, "The operation was cancelled."),
    "DATA_LOSS": (500, "Unrecoverable data loss or corruption."),
    "UNKNOWN": (500, "Unknown error."),
    "DEADLINE_EXCEEDED": (504, "Deadline expired before operation could complete."),
}

REFUSALS: Mapping[str, Response] = {
    "INVALID_ARGUMENT": invalid_argument("Invalid value at 'message.data'.", "message.data"),
    "PERMISSION_DENIED": permission_denied("sandbox"),
    **{code: _error(code, status, text, *details) for code, (status, text, details) in _FCM_ERRORS.items()},
    **{code: _error(code, status, text, status=code) for code, (status, text) in _OTHER_STATUSES.items()},
}
"""Every error that can be scripted, by the code under which it is counted."""
